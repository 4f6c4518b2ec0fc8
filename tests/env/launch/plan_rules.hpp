// The signature that tests and the fuzzer of launch plans share, and what holds of every step of
// every plan.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "env/lanes/cuda/launch/launch_plan.hpp"

namespace quern::test {

/// kernel(const float* x, const int32_t* ids, float* y, int64_t n, int64_t m, workspace, stream)
inline env::plan_signature plan_signature() {
  env::plan_signature made;
  made.inputs = {{"x", env::dtype::f32}, {"ids", env::dtype::i32}};
  made.outputs = {{"y", env::dtype::f32}};
  made.sizes = {"n", "m"};
  return made;
}

/// x and y have n * m floats, ids n numbers, the workspace 1 MiB.
inline env::plan_call plan_call(std::int64_t n, std::int64_t m) {
  env::plan_call made;
  made.sizes = {n, m};
  made.input_bytes = {4 * n * m, 4 * n};
  made.output_bytes = {4 * n * m};
  made.workspace_bytes = 1 << 20;
  return made;
}

/// Whether [one, one + bytes) lies in its buffer; in none it is empty.
inline bool inside(const env::plan_pointer& one, std::int64_t bytes, const env::plan_call& call) {
  std::int64_t size = 0;
  if (one.buffer == env::plan_buffer::input) size = call.input_bytes.at(one.index);
  if (one.buffer == env::plan_buffer::output) size = call.output_bytes.at(one.index);
  if (one.buffer == env::plan_buffer::workspace) size = call.workspace_bytes;
  return one.offset >= 0 && bytes >= 0 && one.offset <= size && bytes <= size - one.offset;
}

/// The rule of plans that the step breaks; empty: none.
inline std::string_view broken_rule(const env::launch_plan& plan, const env::launch_step& step,
                                    const env::plan_call& call) {
  if (const auto* set = std::get_if<env::memory_set>(&step)) {
    if (set->bytes <= 0) return "a fill has bytes";
    if (set->to.buffer == env::plan_buffer::input) return "no input is filled";
    return inside(set->to, set->bytes, call) ? "" : "a fill is inside its buffer";
  }
  if (const auto* copy = std::get_if<env::memory_copy>(&step)) {
    if (copy->to.buffer == env::plan_buffer::input) return "nothing is copied to an input";
    const bool both = inside(copy->to, copy->bytes, call) && inside(copy->from, copy->bytes, call);
    return both ? "" : "a copy is inside its buffers";
  }
  const auto& launch = std::get<env::kernel_launch>(step);
  const env::plan_kernel& kernel = plan.kernels().at(launch.kernel);
  if (launch.arguments.size() != kernel.parameters.size()) return "each parameter has its argument";
  if (launch.shared_bytes > env::plan_limits::shared_bytes) return "shared memory is bounded";
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] < 1 || launch.block[i] < 1) return "grids and blocks are not empty";
    threads *= launch.block[i];
  }
  if (launch.grid[0] > env::plan_limits::grid_x) return "grids are bounded";
  if (threads > env::plan_limits::block_threads) return "blocks are bounded";
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const auto* pointer = std::get_if<env::plan_pointer>(&launch.arguments[i]);
    if ((pointer != nullptr) != kernel.parameters[i].pointer) return "pointers are pointers";
    if (pointer != nullptr) {
      if (!inside(*pointer, 0, call)) return "a pointer is inside its buffer";
    } else if (std::get<env::plan_scalar>(launch.arguments[i]).size != kernel.parameters[i].size) {
      return "an argument has the bytes of its parameter";
    }
  }
  return "";
}

}  // namespace quern::test
