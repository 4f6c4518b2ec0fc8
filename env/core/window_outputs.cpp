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

}  // namespace quern::env
