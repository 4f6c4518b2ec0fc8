// Where a number or a string of Python ends: the rules of CPython's tokenizer (3.14's, which reads
// what earlier ones accept).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "env/lanes/pytorch/text/python_text.hpp"

namespace quern::env {

/// The end of a literal, or why it has none. `text` is always one of read_python_text: it ends with
/// a line end and has no NUL.
struct python_literal_end {
  std::size_t end = 0;
  std::optional<python_fault_kind> fault;
};

/// Of the number that begins at `at`: a digit, or a dot before a digit. A keyword may follow
/// directly (1if x else 2), another name may not.
python_literal_end end_of_python_number(std::string_view text, std::size_t at);

struct python_string_start {
  std::size_t quote = 0;      ///< where the first quote is, behind the prefix
  bool is_formatted = false;  ///< an f-string or a t-string
  bool is_raw = false;
};

/// The string that begins at `at`, with its prefix; none: what is there begins no string.
std::optional<python_string_start> python_string_at(std::string_view text, std::size_t at);

/// An f-string is one literal from its prefix to its last quote. Its fields may have quotes of its
/// own kind, line ends, comments and nested f-strings, as from 3.12 on; what earlier versions
/// accept ends at the same place by both rules. T-strings (3.14) likewise.
python_literal_end end_of_python_string(std::string_view text, const python_string_start& start);

}  // namespace quern::env
