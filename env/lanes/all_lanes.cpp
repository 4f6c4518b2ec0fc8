// The lanes of Quern's programs. A program with others links a list of its own.
#include <array>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"

namespace quern::env {

std::span<const lane* const> all_lanes() {
  static constexpr std::array<const lane*, 3> all{&cpp_lane, &cuda_lane, &pytorch_lane};
  return all;
}

}  // namespace quern::env
