// What the rules of the static screen share when they walk over tokens.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "env/screen/lexer.hpp"
#include "env/screen/screen_finding.hpp"

namespace quern::env::walk {

using tokens = std::span<const token>;

inline bool is(const token& item, std::string_view text) {
  return item.text == text && item.kind != token_kind::string && item.kind != token_kind::character;
}

inline bool is_word(const token& item) {
  return item.kind == token_kind::identifier;
}

inline screen_finding finding_at(screen_rule rule, const token& at, std::string text) {
  return {rule, at.line, std::move(text)};
}

// Index behind the bracket that closes the one at `open` (or the end, or where `longest` is over).
inline std::size_t behind_group(tokens all, std::size_t open,
                                std::size_t longest = max_source_bytes) {
  int depth = 0;
  const std::size_t end = std::min(all.size(), open + longest);
  for (std::size_t i = open; i < end; ++i) {
    const std::string& text = all[i].text;
    if (all[i].kind != token_kind::punctuator) continue;
    if (text == "(" || text == "[" || text == "{") ++depth;
    if (text == ")" || text == "]" || text == "}") --depth;
    if (depth == 0) return i + 1;
  }
  return end;
}

}  // namespace quern::env::walk
