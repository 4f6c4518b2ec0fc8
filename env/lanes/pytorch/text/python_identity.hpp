// One spelling for all texts of a Python module that differ only in comments and layout: the
// identity of a candidate of lane `pytorch`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "env/lanes/pytorch/text/python_tokens.hpp"

namespace quern::env {

enum class python_form : std::uint8_t {
  tokens,  ///< `text` is made from tokens, as said below
  bytes    ///< `text` is the module to the byte
};

/// Form `tokens`, version 1. It is Python text for the same program:
///   - each line that has tokens is one line, which ends with LF; there are no others;
///   - it begins with one blank for each level of indentation, whatever columns the text uses;
///   - between tokens there is one blank, and none before the line end;
///   - lines that brackets or backslashes join are one line;
///   - names, numbers and operators are spelled as in the text;
///   - a string is spelled as in the text, from its prefix to its last quote, but that CRLF and CR
///     in it are LF, as for Python. It may hold line ends. Docstrings stay;
///   - an f-string or a t-string is one such string, with the layout and comments of its fields.
/// Comments, blank lines, a byte order mark and an encoding comment leave no trace. Statements are
/// not rewritten: `a; b`, redundant brackets, commas, quotes and prefixes are what they are, and
/// names that only NFKC makes equal differ.
///
/// Form `bytes` is for texts that see their layout, and for texts with a fault (python_fault_kind).
/// Python refuses the latter before it looks at the grammar, but for three that are refused here
/// alone: too many bytes, an encoding other than UTF-8, and a comment that is not UTF-8, which some
/// versions take.
struct python_canonical {
  python_form form = python_form::tokens;
  std::string text;
  bool operator==(const python_canonical&) const = default;
};

/// Never fails, linear in the text, any thread. Idempotent: the canonical form of `text` of form
/// `tokens` is the same.
python_canonical canonical_python(std::string_view bytes);

/// The text of form `tokens` for what was cut, whether or not there is a fault or the text sees its
/// layout.
std::string python_spelling(const python_tokens& cut);

/// Whether what the module computes may depend on its comments and line numbers: it has a name by
/// which a program reads its own text or line, outside strings or in an f-string. Names: __file__,
/// __cached__, __loader__, __spec__, __code__, inspect, linecache, tokenize, traceback, _getframe,
/// lineno, f_lineno, tb_lineno, co_firstlineno, co_lines, co_linetable, co_lnotab, co_positions.
/// Doubt costs no more than that a text is not known again when it is laid out anew.
bool python_sees_layout(std::string_view bytes);

/// Hash of form and text of canonical_python: the `source` of verdicts. Texts of different forms
/// have different hashes.
base::hash128 python_hash(std::string_view bytes);

}  // namespace quern::env
