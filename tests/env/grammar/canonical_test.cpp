// The canonical form: what it must not change, what it must make equal, and who is held out.
#include "env/grammar/canonical.hpp"

#include <cmath>

#include "base/random.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/interpret.hpp"
#include "support/test.hpp"

using namespace quern;
using env::composition;

namespace {

composition parse(std::string_view text) {
  return env::parse_composition(text).value();
}

std::string form_of(std::string_view text) {
  return to_text(canonical_form(parse(text)));
}

/// Any valid composition, degenerate ones too.
composition random_composition(std::uint64_t key) {
  base::random_stream random(7, "any composition", {key});
  for (;;) {
    composition made;
    const auto count = random.between(1, 7);
    for (std::int64_t k = 0; k < count; ++k) {
      env::composition_step step{static_cast<env::step_kind>(random.below(env::step_kind_count)),
                                 0};
      constexpr float constants[] = {-2, -1, -0.5, 0.25, 1, 1.5, 3};
      if (has_constant(step.kind)) step.constant = constants[random.below(7)];
      made.steps.push_back(step);
    }
    if (validate(made)) return made;
  }
}

}  // namespace

TEST_CASE("the canonical form is valid, its own form, no longer, and of the same family") {
  for (std::uint64_t k = 0; k < 20000; ++k) {
    const composition what = random_composition(k);
    const composition form = canonical_form(what);
    INFO(to_text(what));
    CHECK(validate(form));
    CHECK(canonical_form(form) == form);
    CHECK(form.steps.size() <= what.steps.size());
    CHECK(family_of(form) == family_of(what));
    CHECK((!uses_row(form) || uses_row(what)));
    CHECK(composition_hash(form) == composition_hash(what));
  }
}

TEST_CASE("the canonical form computes the same") {
  for (std::uint64_t k = 0; k < 4000; ++k) {
    const composition what = random_composition(k);
    const composition form = canonical_form(what);
    base::random_stream random(8, "inputs", {k});
    std::vector<float> x(15);
    std::vector<float> w(5);
    std::vector<float> t(15);
    for (auto* values : {&x, &w, &t})
      for (float& v : *values)
        v = static_cast<float>(random.normal());
    const auto want = interpret(what, {3, 5, x, w, t});
    const auto got = interpret(form, {3, 5, x, w, t});
    INFO(to_text(what), "  ->  ", to_text(form));
    REQUIRE(got.size() == want.size());
    for (std::size_t e = 0; e < want.size(); ++e)
      CHECK(std::fabs(got[e] - want[e]) <= 1e-7 * (1 + std::fabs(want[e])));
  }
}

TEST_CASE("trivially equal compositions have one form") {
  CHECK(form_of("scale 0.5 | times_row") == form_of("times_row | scale 0.5"));
  CHECK(form_of("plus_tensor | shift 1 | plus_row") == form_of("plus_row | plus_tensor | shift 1"));
  CHECK(form_of("scale 2 | scale 3") == "scale 6");
  CHECK(form_of("shift 1 | shift -1 | relu") == "relu");
  CHECK(form_of("negate | negate | tanh") == "tanh");
  CHECK(form_of("relu | relu | abs") == "relu");
  CHECK(form_of("sigmoid | relu | clip") == "sigmoid");
  CHECK(form_of("negate | square") == "square");
  CHECK(form_of("abs | decay") == "decay");
  CHECK(form_of("scale 2 | relu") == "relu | scale 2");
  CHECK(form_of("scale 2 | row_sum") == "row_sum | scale 2");
  CHECK(form_of("tanh | row_max") == "row_max | tanh");
  CHECK(form_of("shift 3 | softmax") == "softmax");
  CHECK(form_of("shift 1 | scale 2") == "scale 2 | shift 2");
  CHECK(form_of("transpose | tanh") == "tanh | transpose");
  CHECK(form_of("tanh | relu") == "relu | tanh");
  CHECK(form_of("negate | negate") == "scale 1");
}

TEST_CASE("different compositions keep different forms") {
  const std::vector<std::string> different{"relu",
                                           "abs",
                                           "scale 2 | shift 1",
                                           "shift 1 | scale 4",
                                           "scale -2 | relu",
                                           "relu | scale -2",
                                           "row_sum | square",
                                           "square | row_sum",
                                           "decay | relu | shift -1",
                                           "shift -1 | decay"};
  for (const auto& a : different)
    for (const auto& b : different)
      CHECK((composition_hash(parse(a)) == composition_hash(parse(b))) == (a == b));
}

TEST_CASE("constants do not matter to the skeleton, operators do") {
  CHECK(skeleton_hash(parse("scale 2 | tanh")) == skeleton_hash(parse("scale 0.5 | tanh")));
  CHECK(skeleton_hash(parse("scale 2 | tanh")) != skeleton_hash(parse("shift 2 | tanh")));
}

TEST_CASE("held out are the share by hash, whole families and single compositions") {
  env::held_out_spec by_hash;
  by_hash.salt = 3;
  by_hash.per_mille = 100;
  int held = 0;
  for (std::uint64_t k = 0; k < 4000; ++k) {
    const composition what = random_composition(k);
    held += is_held_out(what, by_hash) ? 1 : 0;
    CHECK(is_held_out(what, by_hash) == is_held_out(canonical_form(what), by_hash));
    CHECK_FALSE(is_held_out(what, {}));
  }
  CHECK(held > 200);
  CHECK(held < 600);

  env::held_out_spec by_family;
  by_family.families = {"softmax"};
  CHECK(is_held_out(parse("relu | softmax"), by_family));
  CHECK_FALSE(is_held_out(parse("relu | rms"), by_family));

  env::held_out_spec single;
  single.skeletons = {skeleton_hash(parse("scale 2 | times_row | tanh"))};
  CHECK(is_held_out(parse("times_row | scale 0.25 | tanh"), single));
  CHECK_FALSE(is_held_out(parse("plus_row | scale 0.25 | tanh"), single));
}
