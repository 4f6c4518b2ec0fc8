// The canonical form of a Python module.
#include "env/lanes/pytorch/text/python_identity.hpp"

#include <algorithm>
#include <iterator>

#include "env/lanes/pytorch/text/python_tokens.hpp"

namespace quern::env {
namespace {

bool names_python_layout(std::string_view name) {
  constexpr std::string_view names[] = {
      "__file__",  "__cached__",     "__loader__", "__spec__",     "__code__",  "inspect",
      "linecache", "tokenize",       "traceback",  "_getframe",    "lineno",    "f_lineno",
      "tb_lineno", "co_firstlineno", "co_lines",   "co_linetable", "co_lnotab", "co_positions"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// Whether one of the words of an f-string is such a name; which of them are in fields is not
/// asked.
bool any_word_names_layout(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && in_python_name(text[end]))
      ++end;
    if (names_python_layout(text.substr(at, end - at))) return true;
    at = end + 1;
  }
  return false;
}

bool sees_python_layout(const python_tokens& cut) {
  return std::any_of(cut.tokens.begin(), cut.tokens.end(), [&](const python_token& one) {
    if (one.kind == python_token_kind::name) return names_python_layout(cut.text_of(one));
    return one.kind == python_token_kind::formatted && any_word_names_layout(cut.text_of(one));
  });
}

}  // namespace

std::string python_spelling(const python_tokens& cut) {
  std::string text;
  text.reserve(cut.text.size());
  std::size_t level = 0;
  bool is_first = true;
  for (const python_token& one : cut.tokens) {
    switch (one.kind) {
      case python_token_kind::indent:
        ++level;
        continue;
      case python_token_kind::dedent:
        --level;
        continue;
      case python_token_kind::newline:
        text += '\n';
        is_first = true;
        continue;
      default:
        break;
    }
    text.append(is_first ? level : 1, ' ');
    text += cut.text_of(one);
    is_first = false;
  }
  return text;
}

python_canonical canonical_python(std::string_view bytes) {
  const python_tokens cut = tokenize_python(bytes);
  if (cut.fault || sees_python_layout(cut)) return {python_form::bytes, std::string(bytes)};
  return {python_form::tokens, python_spelling(cut)};
}

bool python_sees_layout(std::string_view bytes) {
  return sees_python_layout(tokenize_python(bytes));
}

base::hash128 python_hash(std::string_view bytes) {
  const python_canonical canonical = canonical_python(bytes);
  // A new version of a form is a new name here.
  return base::hasher()
      .add(canonical.form == python_form::tokens ? "python tokens 1" : "python bytes 1")
      .add(canonical.text)
      .digest();
}

}  // namespace quern::env
