// One spelling for all texts that differ only in comments and layout.
#include "env/screen/canonical.hpp"

#include <algorithm>
#include <iterator>

#include "env/screen/lexer.hpp"

namespace quern::env {
namespace {

// Directly behind a backslash a line end would be none.
const char* line_end(const std::string& text) {
  return text.back() == '\\' ? " /**/\n" : "\n";
}

constexpr bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}

/// Names by which a text can learn where it stands or how it is laid out: those of the line, and
/// macros of headers that paste or stringise. Of the latter nobody has a list: names that are
/// reserved (_Upper, __UPPER without the __ that ends what compilers predefine) or say so.
bool names_layout(std::string_view name) {
  constexpr std::string_view lines[] = {"__LINE__",         "__builtin_LINE",
                                        "__builtin_COLUMN", "__builtin_source_location",
                                        "source_location",  "assert"};
  constexpr std::string_view words[] = {"STRING", "CONCAT", "PASTE", "_CAT"};
  if (std::find(std::begin(lines), std::end(lines), name) != std::end(lines)) return true;
  if (std::any_of(std::begin(words), std::end(words),
                  [&](std::string_view word) { return name.find(word) != std::string_view::npos; }))
    return true;
  const std::size_t first = name.starts_with("__") ? 2 : name.starts_with("_") ? 1 : 0;
  const bool is_reserved = first != 0 && first < name.size() && is_capital(name[first]);
  // Constants of vector instructions, and what compilers predefine or know.
  return is_reserved && !name.ends_with("__") && !name.starts_with("_MM_") &&
         !name.starts_with("_CMP_") && name != "_Pragma";
}

bool tells_layout(const token& item) {
  if (item.kind == token_kind::identifier) return names_layout(item.text);
  return item.directive && !item.line_start && (item.text == "#" || item.text == "##");
}

bool any_tells_layout(const std::vector<token>& tokens) {
  return std::any_of(tokens.begin(), tokens.end(), tells_layout);
}

}  // namespace

bool sees_layout(std::string_view source) {
  return any_tells_layout(lex_cpp(source));
}

std::string canonical_source(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  bool in_directive = false;
  bool open_literal = false;
  bool launches = false;  // a "<<<" was seen: three '>' may close it
  std::string_view before;
  const auto tokens = lex_cpp(source);
  if (any_tells_layout(tokens)) return std::string(source);
  for (const token& item : tokens) {
    const bool begins = item.directive && item.line_start;
    // A preprocessor line ends where it ended, and so does a literal that nobody closed; all other
    // line ends are layout.
    const bool new_line = begins || open_literal || (in_directive && !item.directive);
    // "#define F(x)" is not "#define F (x)".
    const bool parameters = item.directive && item.glued && item.text == "(";
    // "f<<<g, b>>>(x)" launches a kernel, and "f<< <g, b>> >(x)" does not.
    const bool bracket = item.glued && ((before == "<<" && item.text == "<") ||
                                        (launches && before == ">>" && item.text == ">"));
    launches = launches || (bracket && item.text == "<");
    if (!text.empty() && !parameters && !bracket) text += new_line ? line_end(text) : " ";
    text += item.text;
    before = item.kind == token_kind::punctuator ? std::string_view(item.text) : std::string_view();
    in_directive = item.directive;
    open_literal =
        item.kind == token_kind::other && item.text.find_first_of("\"'") != std::string::npos;
  }
  if (!text.empty()) text += line_end(text);
  return text;
}

base::hash128 source_hash(std::string_view source) {
  return base::xxh128(canonical_source(source));
}

}  // namespace quern::env
