// The bytes of a Python module as the text that Python reads, and what can be wrong with a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::env {

/// Longer modules are not cut into tokens. The longest module of PyTorch has 1.5 MB.
inline constexpr std::size_t max_python_bytes = 16U << 20U;

/// Why Python, or this reader, refuses a text before it looks at the grammar.
enum class python_fault_kind : std::uint8_t {
  too_long,             ///< more than max_python_bytes
  nul_byte,             ///< Python refuses it anywhere in a module
  not_utf8,             ///< with surrogates, overlong forms and values above 10FFFF
  other_encoding,       ///< the encoding comment names another one than UTF-8
  unterminated_string,  ///< its line, or the text, ends before its quotes
  bad_field,            ///< a `}` of an f-string that closes nothing, or a field that does not end
  bad_number,           ///< 0x, 1__0, 09, 1e+, 1abc
  bad_character,        ///< `$`, `?`, a backquote, a lone `!`, a control character
  bad_continuation,     ///< a backslash that no line follows
  bracket_mismatch,     ///< `)` for `[`, or a closing bracket alone
  open_bracket,         ///< the text ends inside brackets
  bad_indentation,      ///< a line goes back to a column that no line around it has
  mixed_tabs,           ///< the order of two columns depends on the width of a tab
  too_deep              ///< more levels than Python's tokenizer takes, or nested f-strings
};

std::string_view to_string(python_fault_kind kind);

struct python_fault {
  python_fault_kind kind = python_fault_kind::bad_character;
  std::uint32_t line = 1;  ///< 1-based; where the string or bracket that does not end begins
};

struct python_text {
  std::string text;  ///< empty where there is a fault
  std::optional<python_fault> fault;
};

/// What Python's compiler does first: a byte order mark is left out, CRLF and CR become LF (in
/// strings, too), an encoding comment in one of the first two lines is read. Only UTF-8 is taken,
/// under the names utf-8, utf8 and those that begin with utf-8-. A last line without an end gets
/// one. Never fails otherwise; linear in the text.
python_text read_python_text(std::string_view bytes);

/// Whether `c` is a letter, a digit, `_` or a byte above 7F. The latter stand in identifiers or
/// the module is none: whether Python has them in its tables is not asked, since the tables of its
/// versions differ.
constexpr bool in_python_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

constexpr bool is_python_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Single characters of operators and delimiters. `!` alone is none outside f-strings.
constexpr bool is_python_operator(char c) {
  return c != '\0' && std::string_view("()[]{}:,;.@=<>+-*/%&|^~").find(c) != std::string_view::npos;
}

}  // namespace quern::env
