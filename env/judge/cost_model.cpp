// `cost_model/1`.
#include "env/judge/cost_model.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"

namespace quern::env {

std::int64_t cost_model_e2(const std::string& task_id, std::string_view source) {
  std::int64_t loops = 0, doubles = 0, divisions = 0;
  bool has_restrict = false, intrinsics = false, pragma = false;
  const std::string canonical = canonical_source(source);
  for (const auto& token : lex_cpp(canonical)) {
    if (token.kind == token_kind::punctuator && (token.text == "/" || token.text == "/="))
      ++divisions;
    if (token.kind != token_kind::identifier) continue;
    if (token.text == "for" || token.text == "while") ++loops;
    if (token.text == "double") ++doubles;
    if (token.text == "__restrict__" || token.text == "__restrict") has_restrict = true;
    if (token.text.starts_with("_mm")) intrinsics = true;
    if (token.directive && token.text == "pragma") pragma = true;
  }
  const auto jitter =
      static_cast<std::int64_t>(base::hasher().add(task_id).add(canonical).digest().low % 16);
  std::int64_t cost = 100 + 40 * std::max<std::int64_t>(0, loops - 2) + 25 * doubles +
                      10 * std::min<std::int64_t>(divisions, 8) + jitter;
  if (has_restrict) cost -= 15;
  if (intrinsics) cost -= 20;
  if (pragma) cost -= 10;
  return std::clamp<std::int64_t>(100 * 130 / std::max<std::int64_t>(cost, 20), 10, 1000);
}

}  // namespace quern::env
