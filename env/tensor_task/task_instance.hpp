// A task with tensors at given sizes: its shapes, bytes and cost in numbers, and which content its
// inputs get.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/distribution.hpp"
#include "env/tensor_task/dtype.hpp"

namespace quern::env {

/// One tensor with its numbers filled in.
struct tensor_layout {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
  std::int64_t below = 0;  ///< integer inputs: exclusive bound of the values; 0 otherwise
};

/// A task with tensors at one choice of sizes: everything that allocating, filling, calling and
/// judging needs.
struct task_instance {
  std::vector<std::int64_t> sizes;  ///< in the order of tensor_body::size_names
  std::vector<tensor_layout> inputs;
  std::vector<tensor_layout> outputs;
  std::int64_t cost_bytes = 0;
  std::int64_t cost_flops = 0;
};

/// Limits of one instance; load_task refuses what goes beyond them.
inline constexpr std::int64_t max_tensor_bytes = std::int64_t{1} << 34;
inline constexpr int max_rank = 8;

/// Evaluates shapes, bounds and cost. Errors name the tensor, the expression, its value and the
/// limit.
base::expected<task_instance> instantiate(const task& what, std::span<const std::int64_t> sizes);

/// The distributions of all inputs in hidden round `round` (0 ..= hidden_rounds - 1), in the order
/// of inputs: input i takes the round-th of its hidden distributions, cyclically; an input with one
/// distribution keeps it.
std::vector<distribution> hidden_distributions(const task& what, int round);

/// Number of rounds after which every hidden distribution of every input has occurred (at least 1).
int hidden_rounds(const task& what);

/// The distributions of the timed calls, in the order of inputs.
std::vector<distribution> timed_distributions(const task& what);

}  // namespace quern::env
