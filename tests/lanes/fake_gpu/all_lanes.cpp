// The lanes of Quern's programs, and a toy on GPUs beside them.
#include <array>

#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "lanes/toy/toy_lane.hpp"

namespace quern::env {

std::span<const lane* const> all_lanes() {
  static constexpr std::array<const lane*, 5> all{&cpp_lane, &cuda_lane, &pytorch_lane, &toy_lane,
                                                  &toy_gpu_lane};
  return all;
}

}  // namespace quern::env
