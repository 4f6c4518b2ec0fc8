// A completion becomes a question for the evaluators, or a verdict that needs none.
#include "actors/orchestrator/rollout.hpp"

#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("a whole completion is a candidate") {
  const std::string text = env::render_completion({"a", "b", "int x;\n"}, "cpp");
  const auto read = read_completion({3, 42, "t@0", text, 1, 150}, {"paired/1", "cpp-avx2"});
  const auto* candidate = std::get_if<evaluate_sample>(&read);
  REQUIRE(candidate != nullptr);
  CHECK(candidate->incarnation == 3);
  CHECK(candidate->sample == 42);
  CHECK(candidate->source == "int x;\n");
  CHECK(candidate->attempt == 1);
  CHECK(candidate->best_known_e2 == 150);
}

TEST_CASE("text without code is malformed, with its reason, and counts") {
  const auto read = read_completion({3, 42, "t@0", "I cannot.", 0, 0}, {"paired/1", "cpp-avx2"});
  const auto* made = std::get_if<sample_verdict>(&read);
  REQUIRE(made != nullptr);
  CHECK(made->counts);
  CHECK(made->lease == 0);
  const auto verdict = env::parse_verdict(made->json);
  REQUIRE(verdict);
  CHECK(verdict->kind == env::verdict_kind::malformed);
  CHECK(verdict->reason == "missing_section");
  CHECK(verdict->protocol == "paired/1");
}
