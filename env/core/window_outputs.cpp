// The outputs of a timed window of a candidate against those of the baseline's.
#include "env/core/window_outputs.hpp"

#include "env/judge/compare.hpp"
#include "env/judge/judge_layer.hpp"

namespace quern::env {

finding check_window_outputs(const task_instance& instance, const output_limits& limit,
                             std::int64_t slots, const tensor_arena& candidate,
                             const tensor_arena& baseline) {
  if (!judges_with(judge_layer::values) || !judges_with(judge_layer::timed_values)) return {};
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::size_t o = 0; o < instance.outputs.size(); ++o) {
      const auto got = candidate.at(o, s);
      auto difference = compare_tensor(instance.outputs[o], limit.at(o), got, baseline.at(o, s));
      if (!difference) continue;
      for (std::int64_t other = 0; other < slots; ++other)
        if (other != s &&
            !compare_tensor(instance.outputs[o], limit.at(o), got, baseline.at(o, other)))
          return {verdict_kind::hack, std::string(name_of(hack_kind::stale_output)),
                  "a timed call delivered the result of another call", std::move(difference)};
      return {verdict_kind::wrong_value, "",
              fmt::format("a timed call is wrong, though the checks before were right: {}",
                          describe(*difference)),
              std::move(difference)};
    }
  return {};
}

finding check_hidden_call(const expected_size& timed, const expected_case& hidden,
                          const output_limits& limit, std::int64_t slot,
                          const tensor_arena& candidate, const tensor_arena& baseline) {
  for (std::size_t o = 0; o < timed.instance.outputs.size(); ++o) {
    const auto compared = [&](const tensor_arena& side, std::span<const std::byte> want) {
      return compare_tensor(timed.instance.outputs[o], limit_of(hidden, limit).at(o),
                            side.at(o, slot), want);
    };
    // What depends on the calls before is known of the baseline alone.
    const bool depends = !timed.in_a_row.empty();
    auto difference =
        depends ? compared(candidate, baseline.at(o, slot)) : compared(candidate, hidden.want[o]);
    (void)compared(baseline, hidden.want[o]);
    if (!difference || !judges_with(judge_layer::values)) continue;
    return {verdict_kind::wrong_value, "",
            fmt::format("wrong among timed calls, though right while it was checked: {} ({})",
                        describe(*difference), hidden.name),
            std::move(difference)};
  }
  return {};
}

}  // namespace quern::env
