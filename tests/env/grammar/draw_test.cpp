// The supply of compositions and the trial that each has passed.
#include "env/grammar/draw.hpp"

#include <map>
#include <set>

#include "env/grammar/canonical.hpp"
#include "env/grammar/plain_cost.hpp"
#include "env/grammar/probe.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

std::string objection_to(std::string_view text) {
  return env::composition_probe(env::parse_composition(text).value()).objection();
}

}  // namespace

TEST_CASE("a composition depends on seed and index alone") {
  const env::draw_limits limits;
  std::vector<std::string> forwards;
  for (std::uint64_t k = 0; k < 60; ++k)
    forwards.push_back(to_text(draw_composition(5, k, limits)));
  for (std::uint64_t k = 60; k-- > 0;)
    CHECK(to_text(draw_composition(5, k, limits)) == forwards[k]);
  int equal = 0;
  for (std::uint64_t k = 0; k < 60; ++k)
    equal += to_text(draw_composition(6, k, limits)) == forwards[k] ? 1 : 0;
  CHECK(equal < 10);
}

TEST_CASE("draws in order are those of their indices, however many threads make them") {
  env::draw_limits limits;
  limits.max_before = 2;
  for (const unsigned threads : {0U, 1U, 3U, 100U}) {
    env::tried_draws draws(5, limits, threads);
    for (std::uint64_t k = 0; k < 30; ++k) {
      const env::composition_probe drawn = draws.next();
      CHECK(drawn.objection().empty());
      CHECK(to_text(drawn.subject()) == to_text(draw_composition(5, k, limits)));
    }
  }
}

TEST_CASE("addresses keep their meaning: corpora, splits and policies hang on them") {
  const std::vector<std::string> golden{"clip | times_tensor | centre",
                                        "max_tensor | tanh | decay | abs | root",
                                        "abs | clip | plus_row | l1",
                                        "square | relu | sigmoid | times_tensor",
                                        "softsign | tanh | max_tensor | root | scale 2",
                                        "square | shift 0.5 | tanh",
                                        "times_tensor | plus_row | sigmoid | rms",
                                        "tanh | plus_row | silu"};
  for (std::uint64_t k = 0; k < golden.size(); ++k)
    CHECK(to_text(env::draw_composition(1, k, {})) == golden[k]);
}

TEST_CASE("what is drawn keeps the limits, has no objection, and is of many kinds") {
  env::draw_limits limits;
  limits.max_before = 2;
  limits.max_after = 1;
  limits.max_steps = 4;
  std::map<std::string, int> families;
  std::set<base::hash128> forms;
  for (std::uint64_t k = 0; k < 300; ++k) {
    const env::composition what = draw_composition(9, k, limits);
    CHECK(validate(what));
    CHECK(what.steps.size() >= 2);
    CHECK(what.steps.size() <= 4);
    CHECK(plain_ns(what) >= limits.least_plain_ns);
    const env::composition_probe probe(what);
    CHECK(probe.objection().empty());
    CHECK(probe.distributions().size() == 5);
    CHECK(probe.distributions()[0] == env::distribution::normal);
    CHECK(probe.limits().atol > 0);
    ++families[family_of(what)];
    forms.insert(composition_hash(what));
  }
  CHECK(families.size() == env::all_families().size());
  CHECK(forms.size() > 220);
}

TEST_CASE("families can be chosen") {
  env::draw_limits limits;
  limits.families = {{"softmax", 1}, {"running_sum", 3}};
  int sums = 0;
  for (std::uint64_t k = 0; k < 60; ++k) {
    const std::string family = family_of(draw_composition(1, k, limits));
    CHECK((family == "softmax" || family == "running_sum"));
    sums += family == "running_sum" ? 1 : 0;
  }
  CHECK(sums > 30);
  CHECK(sums < 58);
}

TEST_CASE("limits that nothing can meet are refused") {
  const auto message = [](auto change) {
    env::draw_limits limits;
    change(limits);
    const auto valid = validate(limits);
    REQUIRE_FALSE(valid);
    return valid.error().message;
  };
  CHECK(message([](auto& l) {
          l.families = {{"sofmax", 1}};
        }).find("did you mean 'softmax'") != std::string::npos);
  CHECK(message([](auto& l) {
          l.families = {{"softmax", 0}};
        }).find("nothing to draw") != std::string::npos);
  CHECK(message([](auto& l) { l.least_plain_ns = 9; }).find("least_plain_ns is 9") !=
        std::string::npos);
  CHECK(message([](auto& l) { l.min_steps = 9; }).find("min_steps is 9") != std::string::npos);
  CHECK(message([](auto& l) { l.max_steps = 1; }).find("max_steps is 1") != std::string::npos);
  CHECK(message([](auto& l) { l.max_before = 0; }).find("max_before is 0") != std::string::npos);
  CHECK(message([](auto& l) { l.max_after = 99; }).find("max_after is 99") != std::string::npos);
}

TEST_CASE("what would teach the wrong thing is objected to") {
  CHECK(objection_to("abs | negate | relu") == "constant output");
  CHECK(objection_to("sigmoid | scale 0.001 | plus_tensor") == "input x hardly matters");
  CHECK(objection_to("scale 1000 | plus_row") == "input w hardly matters");
  CHECK(objection_to("shift 6 | max_tensor") == "input t hardly matters");
  CHECK(objection_to("scale 1e+30 | square") == "ill-conditioned");
  CHECK(objection_to("times_row | tanh | rms") == "");
}

TEST_CASE("mistakes are seen, harmless changes are not") {
  const env::composition_probe probe(env::parse_composition("relu | times_row | tanh").value());
  const auto reveals = [&](std::string_view text) {
    return probe.reveals(env::parse_composition(text).value());
  };
  CHECK(reveals("times_row | tanh"));
  CHECK(reveals("relu | plus_row | tanh"));
  CHECK(reveals("relu | tanh | times_row"));
  CHECK_FALSE(reveals("relu | relu | times_row | tanh"));
  CHECK_FALSE(reveals("relu | plus_tensor | tanh"));
  CHECK_FALSE(reveals("relu | times_row | row_sum"));
}
