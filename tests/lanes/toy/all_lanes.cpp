// The lanes of Quern's programs, and the toy.
#include <array>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "lanes/toy/toy_lane.hpp"

namespace quern::env {

std::span<const lane* const> all_lanes() {
  static constexpr std::array<const lane*, 3> all{&cpp_lane, &cuda_lane, &toy_lane};
  return all;
}

}  // namespace quern::env
