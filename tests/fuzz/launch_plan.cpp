// Host functions of candidates in device-only form, which the evaluator itself reads and carries
// out.
#include "env/launch/plan_rules.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto plan = env::parse_launch_plan(text, test::plan_signature());
  if (!plan) {
    require(plan.error().line >= 1 && plan.error().column >= 1 && !plan.error().text.empty(),
            "an error has a place and a text");
    return;
  }
  require(plan->device_source().size() == text.size(), "blanks stand for host functions");
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 40}) {
    const env::plan_call call = test::plan_call(n, 8);
    if (const auto asked = plan->workspace(call.sizes))
      require(*asked >= 0, "a workspace has a size");
    const auto made = plan->steps(call);
    if (!made) {
      require(!made.error().message.empty(), "an error has a message");
      continue;
    }
    require(made->size() <= static_cast<std::size_t>(env::plan_limits::steps), "steps are bounded");
    for (const env::launch_step& step : *made)
      require(test::broken_rule(*plan, step, call).empty(), test::broken_rule(*plan, step, call));
  }
}
