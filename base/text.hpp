// Text helpers for messages and small parsers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace quern::base {

/// The candidate with the smallest edit distance (insertions, deletions, replacements, swaps of
/// neighbours), if it is near enough to be a likely slip: one for each three characters of `name`,
/// at least 1 and at most 3. Else empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates);

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
/// The lines of a text, trimmed, without empty ones, with "; " between them: for messages that
/// stand in one line.
std::string one_line(std::string_view text);
/// The text behind the mark that some editors write at the beginning of a UTF-8 file.
std::string_view without_byte_order_mark(std::string_view text);

/// "1.5 GiB", "640 B".
std::string human_bytes(std::uint64_t count);
/// "1 h 20 min", "3.2 s", "840 us".
std::string human_duration(nanoseconds_t duration);

}  // namespace quern::base
