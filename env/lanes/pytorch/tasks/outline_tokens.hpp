// Words of a Python text, as far as an outline needs them. No grammar: any text gives statements.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace quern::env {

enum class outline_kind : std::uint8_t { name, number, string, sign };

/// `text` is a part of what was read. A sign is one byte.
struct outline_token {
  outline_kind kind = outline_kind::sign;
  std::string_view text;
  int depth = 0;  ///< brackets that are open around it; those themselves count as inside
};

/// The tokens of one logical line, at least one, without comments.
struct outline_statement {
  std::int64_t column =
      0;  ///< blanks before it; a tab counts as one. Behind `;`: those of the line
  std::vector<outline_token> tokens;
};

/// Whatever the bytes. A string that does not end goes on to the end of the line, or of the text
/// where it has three quotes.
std::vector<outline_statement> statements_of(std::string_view text);

}  // namespace quern::env
