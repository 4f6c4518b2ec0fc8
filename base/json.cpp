#include "base/json.hpp"

namespace quern::base {

namespace {

/// Whether brackets outside of texts nest deeper. A callback of the library would tell, too, but
/// with one it searches a whole object whenever a member of it ends.
bool nests_deeper_than(std::string_view text, int depth) {
  int open = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++open > depth) return true;
    } else if (c == '}' || c == ']') {
      --open;
    }
  }
  return false;
}

}  // namespace

expected<json> parse_json(std::string_view text, int depth) {
  if (nests_deeper_than(text, depth))
    return fail(errc::invalid_argument, "JSON nests deeper than {} levels", depth);
  try {
    return json::parse(text.begin(), text.end());
  } catch (const json::exception& problem) {
    // Begins with the name of the exception, which tells a reader nothing.
    const std::string_view said = problem.what();
    const std::size_t name = said.starts_with("[") ? said.find("] ") : said.npos;
    return fail(errc::invalid_argument, "not JSON: {}",
                name == said.npos ? said : said.substr(name + 2));
  }
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}
std::string dump_pretty(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace);
}
std::string dump_pretty(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

namespace {

template <class T>
bool holds(const json& value) {
  if constexpr (std::is_same_v<T, bool>) return value.is_boolean();
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return value.is_number_integer() &&
           !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  }
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return value.is_number_unsigned() ||
           (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  }
  if constexpr (std::is_same_v<T, double>) return value.is_number();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string();
}

template <class T>
constexpr std::string_view wanted() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return "an integer of 64 bits";
  if constexpr (std::is_same_v<T, std::uint64_t>) return "an integer of 64 bits, not negative";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::string>) return "text";
}

}  // namespace

template <class T>
expected<T> get(const json& object, std::string_view key) {
  if (!object.is_object())
    return fail(errc::invalid_argument, "an object with '{}' is needed", key);
  const auto found = object.find(std::string(key));
  if (found == object.end()) return fail(errc::invalid_argument, "'{}' is missing", key);
  if (!holds<T>(*found)) {
    return fail(errc::invalid_argument, "'{}' must be {}, found {}", key, wanted<T>(),
                dump(*found).substr(0, 80));
  }
  return found->get<T>();
}

template expected<bool> get<bool>(const json&, std::string_view);
template expected<std::int64_t> get<std::int64_t>(const json&, std::string_view);
template expected<std::uint64_t> get<std::uint64_t>(const json&, std::string_view);
template expected<double> get<double>(const json&, std::string_view);
template expected<std::string> get<std::string>(const json&, std::string_view);

}  // namespace quern::base
