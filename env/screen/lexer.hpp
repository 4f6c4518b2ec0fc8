// C++ source as the compiler's own preprocessor would cut it: enough to see through comments,
// layout, line splices, digraphs and raw strings. No macros are expanded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::env {

enum class token_kind : std::uint8_t {
  identifier,  ///< keywords too
  number,      ///< preprocessing number: 1'000.0f, 0x1p-3
  string,      ///< with prefix, raw strings whole, user-defined suffix
  character,
  punctuator,  ///< digraphs are spelled as what they mean
  header,      ///< <cmath> or "x.h" after include
  other        ///< what no valid program has outside literals: a lone quote, a backslash, control
               ///< characters
};

struct token {
  token_kind kind = token_kind::other;
  bool line_start = false;  ///< first of its line, so that '#' begins a directive
  bool directive = false;   ///< part of a preprocessor line
  bool glued = false;       ///< nothing stands between it and the token before
  std::uint32_t line = 1;   ///< of the file, 1-based
  std::string text;         ///< line splices removed (kept inside raw strings)
  std::size_t begin = 0;    ///< bytes [begin, end) of the text, counted behind a byte order mark
  std::size_t end = 0;
};

/// Never fails: unterminated comments end with the text, unterminated literals with their line.
/// Linear in the text.
std::vector<token> lex_cpp(std::string_view source);

}  // namespace quern::env
