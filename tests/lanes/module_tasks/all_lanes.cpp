// A lane with tensors, and one whose tasks are Python modules.
#include <array>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "lanes/module_tasks/module_lane.hpp"

namespace quern::env {

std::span<const lane* const> all_lanes() {
  static constexpr std::array<const lane*, 2> all{&cpp_lane, &module_lane};
  return all;
}

}  // namespace quern::env
