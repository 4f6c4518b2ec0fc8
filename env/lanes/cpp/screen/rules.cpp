// The closed lists that the static screen of lane `cpp` goes by.
#include "env/lanes/cpp/screen/rules.hpp"

#include <algorithm>
#include <unordered_set>

#include "env/lanes/cpp/screen/prelude.hpp"

namespace quern::env::rules {
namespace {

// clang-format off
const std::unordered_set<std::string_view> not_in_constants{
    "extern", "static", "thread_local", "namespace", "using", "typedef", "template", "class",
    "struct", "union", "enum", "operator", "export", "import", "module", "friend"};
// clang-format on

}  // namespace

bool is_prelude_header(std::string_view text) {
  if (text.size() < 3 || text.front() != '<' || text.back() != '>') return false;
  const std::string_view name = text.substr(1, text.size() - 2);
  const auto& all = prelude_headers();
  return std::find(all.begin(), all.end(), name) != all.end();
}

std::string prelude_header_names() {
  std::string text;
  for (const std::string& name : prelude_headers())
    text += (text.empty() ? "" : ">, <") + name;
  return text;
}

std::string_view pragma_names() {
  return "GCC ivdep, unroll, optimize, target, push_options, pop_options, reset_options, "
         "diagnostic; omp; once; unroll; ivdep; simd; vector; clang loop; STDC FP_CONTRACT";
}

bool is_forbidden_in_constant(const token& item) {
  if (item.kind == token_kind::identifier) return not_in_constants.contains(item.text);
  if (item.kind != token_kind::punctuator) return false;
  return item.text == "{" || item.text == "}" || item.text == ";" || item.text == "#" ||
         item.text == "##";
}

}  // namespace quern::env::rules
