// What metrics say of the completions of a step and of the rewards inside its groups.
#include "actors/decide/batch_shape.hpp"

#include "actors/decide/queue_depths.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("a batch of no samples has no means and no shares") {
  const auto told = batch_shape().to_json();
  CHECK(told["completions"]["tokens_mean"].is_null());
  CHECK(told["completions"]["tokens_max"].is_null());
  CHECK(told["completions"]["truncated"].is_null());
  CHECK(told["groups"]["count"] == 0);
  CHECK(told["groups"]["reward_spread"].is_null());
  CHECK(told["groups"]["without_spread"].is_null());
}

TEST_CASE("lengths are of all samples, spread is inside groups and not between them") {
  batch_shape form;
  // Group 1: deviation 1. Group 2: all equal, far from group 1, and not a sum of powers of two.
  form.add(1, 100, false, 1);
  form.add(1, 300, true, 3);
  for (int i = 0; i < 3; ++i)
    form.add(2, 50, false, 90.1);
  const auto told = form.to_json();
  CHECK(told["completions"]["tokens_mean"].get<double>() == doctest::Approx(110));
  CHECK(told["completions"]["tokens_max"] == 300);
  CHECK(told["completions"]["truncated"].get<double>() == doctest::Approx(0.2));
  CHECK(told["groups"]["count"] == 2);
  CHECK(told["groups"]["reward_spread"].get<double>() == doctest::Approx(0.5));
  CHECK(told["groups"]["without_spread"].get<double>() == 0.5);
}

TEST_CASE("a group whose samples come apart is one group") {
  batch_shape form;
  form.add(1, 1, false, 0);
  form.add(2, 1, false, 0);
  form.add(1, 1, false, -2);
  form.add(2, 1, false, 1);
  const auto told = form.to_json();
  CHECK(told["groups"]["count"] == 2);
  CHECK(told["groups"]["without_spread"].get<double>() == 0);
  CHECK(told["groups"]["reward_spread"].get<double>() == doctest::Approx(0.75));
}

TEST_CASE("depths of queues have a key for each thing that is waited for") {
  const auto told = to_json(queue_depths{.tokens = 1, .room = 2, .verdict = 3, .group = 4});
  CHECK(told["tokens"] == 1);
  CHECK(told["room"] == 2);
  CHECK(told["verdict"] == 3);
  CHECK(told["group"] == 4);
  CHECK(told["step"] == 0);
  CHECK(told["seed_variants"] == 0);
}
