// Python source as tokens, without a Python: enough to see through comments, layout and strings.
// The grammar is not looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/pytorch/text/python_text.hpp"

namespace quern::env {

enum class python_token_kind : std::uint8_t {
  name,       ///< keywords too. Names that are equal by NFKC only are not made equal
  number,     ///< as it was written
  string,     ///< with its prefix and quotes, bytes too
  formatted,  ///< an f-string or a t-string as one token, with its fields
  operation,  ///< operators and delimiters, the longest first
  newline,    ///< ends a statement's line; of an empty one there is none
  indent,     ///< before the first token of a line that is further in
  dedent      ///< one for each level that a line goes back, also at the end of the text
};

struct python_token {
  python_token_kind kind = python_token_kind::operation;
  std::uint32_t line = 1;   ///< of the text, 1-based, where it begins
  std::uint32_t begin = 0;  ///< bytes [begin, end) of python_tokens::text; none for indent, dedent
  std::uint32_t end = 0;
};

/// A module, cut. Owns its text.
struct python_tokens {
  std::string text;  ///< as Python reads it (read_python_text)
  std::vector<python_token> tokens;
  /// Where there is one, `tokens` are those before it.
  std::optional<python_fault> fault;

  [[nodiscard]] std::string_view text_of(const python_token& one) const {
    return std::string_view(text).substr(one.begin, one.end - one.begin);
  }
};

/// Any bytes; what Python's tokenizer refuses is a fault of the value. Levels of indentation, of
/// brackets and of f-strings are bounded as in CPython, the text by max_python_bytes. Linear in the
/// text. Any thread.
python_tokens tokenize_python(std::string_view bytes);

}  // namespace quern::env
