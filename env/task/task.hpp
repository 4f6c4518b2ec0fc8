// A task: what a kernel has to compute, on which inputs, and what it is measured against. The value
// type of docs/formats/task.md; reading and writing files is in task_codec.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/distribution.hpp"
#include "env/task/dtype.hpp"
#include "env/task/lane.hpp"
#include "env/task/size_expr.hpp"

namespace quern::env {

/// What speed-up is measured against: the reference run by ATen, or the task's own plain C++
/// kernel.
enum class baseline_kind { reference, plain };

struct input_spec {
  std::string name;
  dtype type = dtype::f32;
  std::vector<size_expr> shape;     ///< empty: one element
  std::vector<distribution> dists;  ///< at least one; the first is timed, the others are hidden
  std::optional<size_expr> below;   ///< integer types: values are in [0, below); absent otherwise
  friend bool operator==(const input_spec&, const input_spec&) = default;
};

struct output_spec {
  std::string name;
  dtype type = dtype::f32;
  std::vector<size_expr> shape;
  friend bool operator==(const output_spec&, const output_spec&) = default;
};

/// An element is right when |got - want| <= atol + rtol * |want|; both non-negative and finite.
struct tolerance {
  double atol = 0;
  double rtol = 0;
  friend bool operator==(const tolerance&, const tolerance&) = default;
};

/// Least traffic and arithmetic of one call, for the roofline floor: only bytes that must be
/// written and inputs shown to influence the output.
struct task_cost {
  size_expr bytes;
  size_expr flops;
  friend bool operator==(const task_cost&, const task_cost&) = default;
};

/// All sizes in file order, which is the order of the kernel's arguments. `sizes` and every row of
/// `hidden_sizes` have one value for each of `size_names`.
struct task {
  std::string name;
  const env::lane* lane = nullptr;  ///< never null in a valid task
  std::string family;
  std::vector<std::string> size_names;
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> hidden_sizes;
  std::vector<input_spec> inputs;
  std::vector<output_spec> outputs;
  env::tolerance tolerance;
  baseline_kind baseline = baseline_kind::reference;
  task_cost cost;
  bool degenerate = false;  ///< the author says that a constant output or an ignored input is meant
  std::string reference;    ///< TorchScript text of `forward`; ends with one newline
  std::string
      plain;  ///< C++ text of the plain kernel, same entry points as a candidate; empty when absent
  friend bool operator==(const task&, const task&) = default;
};

/// "name@<32 hex digits>": the hash is xxh128 of canonical_text(). Two tasks with the same id are
/// the same task.
std::string task_id(const task& what);

/// The name part of an id ("softmax_rows" of "softmax_rows@0123…"); the whole text where there is
/// no '@'.
std::string_view task_name_of(std::string_view id);

/// The hash part of an id, empty where there is no '@'.
std::string_view task_hash_of(std::string_view id);

/// One tensor with its numbers filled in.
struct tensor_layout {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  std::int64_t bytes = 0;
  std::int64_t below = 0;  ///< integer inputs: exclusive bound of the values; 0 otherwise
};

/// A task at one choice of sizes: everything that allocating, filling, calling and judging needs.
struct task_instance {
  std::vector<std::int64_t> sizes;  ///< in the order of task::size_names
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

/// Refuses a task that breaks a rule of the format, whatever made it: names, ranks, dtypes of the
/// lane, distributions that the type does not have, missing `below`, sizes below 1, limits, empty
/// reference, baseline plain without plain.
base::status validate(const task& what);

}  // namespace quern::env
