// Sources of candidates: the lexer, both static screens, the canonical form.
#include "env/lanes/cpp/screen/cpp_screen.hpp"
#include "env/lanes/cuda/screen/cuda_screen.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  std::size_t before = 0;
  std::uint32_t line = 1;
  for (const env::token& one : env::lex_cpp(text)) {
    require(one.begin >= before && one.begin < one.end && one.end <= text.size(),
            "tokens stand one behind the other, in the text");
    require(one.line >= line, "lines go up");
    before = one.end;
    line = one.line;
  }
  const std::string canonical = env::canonical_source(text);
  require(env::canonical_source(canonical) == canonical, "a canonical text is canonical");
  require(env::source_hash(canonical) == env::source_hash(text), "both are one candidate");
  if (canonical.size() > env::max_source_bytes) return;
  const auto same = [&](const auto& of_text, const auto& of_canonical) {
    require(!of_text || of_text->line >= 1, "a finding has a line");
    require(of_text.has_value() == of_canonical.has_value(), "both are refused, or neither");
  };
  same(env::screen_cpp(text), env::screen_cpp(canonical));
  for (const bool allowed : {false, true}) {
    const env::cuda_screen_policy policy{.library_calls = allowed, .graphs = !allowed};
    same(env::screen_cuda(text, policy), env::screen_cuda(canonical, policy));
  }
}
