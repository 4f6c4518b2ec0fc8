// JSON values and their edge: text in, expected out; no exception leaves here.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/status.hpp"

namespace quern::base {

using json = nlohmann::json;
/// Keeps the order in which keys were written, for files that people read.
using ordered_json = nlohmann::ordered_json;

/// Parses one JSON value; trailing text, bad UTF-8 and nesting beyond `depth` are
/// `invalid_argument`.
expected<json> parse_json(std::string_view text, int depth = 64);

/// Compact text; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string dump(const json& value);
std::string dump(const ordered_json& value);
/// Two spaces a level, for files that people read.
std::string dump_pretty(const json& value);
std::string dump_pretty(const ordered_json& value);

/// `object[key]` as T, or an error that names the key and what was found. Integers must fit T.
template <class T>
expected<T> get(const json& object, std::string_view key);

extern template expected<bool> get<bool>(const json&, std::string_view);
extern template expected<std::int64_t> get<std::int64_t>(const json&, std::string_view);
extern template expected<std::uint64_t> get<std::uint64_t>(const json&, std::string_view);
extern template expected<double> get<double>(const json&, std::string_view);
extern template expected<std::string> get<std::string>(const json&, std::string_view);

}  // namespace quern::base
