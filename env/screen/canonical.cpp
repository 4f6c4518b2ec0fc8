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

/// Names of the line, and operators of macros that build such a name or turn a text into a value.
bool tells_layout(const token& item) {
  constexpr std::string_view names[] = {"__LINE__", "__builtin_LINE", "__builtin_COLUMN",
                                        "__builtin_source_location", "source_location"};
  if (item.kind == token_kind::identifier)
    return std::find(std::begin(names), std::end(names), item.text) != std::end(names);
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
