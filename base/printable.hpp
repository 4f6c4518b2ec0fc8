// Texts of others on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace quern::base {

/// The text without what a terminal acts on: control characters but for line ends and tabs, marks
/// that change the direction of writing, and bytes that are no UTF-8. Each is shown by its number:
/// `\x1b`, `\u202e`.
std::string printable(std::string_view text);

}  // namespace quern::base
