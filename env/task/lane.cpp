// Questions about lanes that their facts answer.
#include "env/task/lane.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "env/task/task.hpp"

namespace quern::env {

const lane* find_lane(std::string_view name) {
  for (const lane* one : all_lanes())
    if (one->name == name) return one;
  return nullptr;
}

std::vector<std::string_view> lane_names() {
  std::vector<std::string_view> names;
  for (const lane* one : all_lanes())
    names.push_back(one->name);
  return names;
}

bool allowed_in(dtype type, const lane& where) {
  return std::find(where.element_types.begin(), where.element_types.end(), type) !=
         where.element_types.end();
}

baseline_choice own_baseline(const task& what) {
  return what.baseline == baseline_kind::plain ? baseline_choice::plain : baseline_choice::eager;
}

base::status check_baseline(const lane& where, baseline_choice asked) {
  // A task has one of these of its own; which one, its file says.
  if (asked == baseline_choice::of_task || asked == baseline_choice::eager ||
      asked == baseline_choice::plain ||
      std::find(where.baselines.begin(), where.baselines.end(), asked) != where.baselines.end())
    return {};
  return base::fail(base::errc::invalid_argument,
                    "the baseline '{}' is none of lane {}, which has task, eager and plain",
                    name_of(asked), where.name);
}

base::status check_baseline(const task& what, baseline_choice asked) {
  QUERN_CHECK(check_baseline(*what.lane, asked));
  const auto& others = what.lane->baselines;
  if (asked == baseline_choice::of_task || asked == own_baseline(what) ||
      std::find(others.begin(), others.end(), asked) != others.end())
    return {};
  return base::fail(base::errc::invalid_argument,
                    "the baseline '{}' is asked for, but tasks of lane {} have that of their file, "
                    "which is '{}' for {}: say task",
                    name_of(asked), what.lane->name, name_of(own_baseline(what)), what.name);
}

base::status check_protocol(const lane& where, std::string_view protocol) {
  if (std::find(where.protocols.begin(), where.protocols.end(), protocol) != where.protocols.end())
    return {};
  return base::fail(base::errc::invalid_argument, "'{}' is no protocol of lane {}, which has {}",
                    protocol, where.name, fmt::join(where.protocols, ", "));
}

}  // namespace quern::env
