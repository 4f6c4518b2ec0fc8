// The body of a task of kernels that are called with tensors: sizes, inputs, outputs, their
// content, cost and a plain kernel (docs/formats/task.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/task/task.hpp"
#include "env/tensor_task/distribution.hpp"
#include "env/tensor_task/dtype.hpp"
#include "env/tensor_task/size_expr.hpp"

namespace quern::env {

/// The format of tensor_body: lanes whose tasks have tensors name it.
extern const body_format tensor_format;

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

/// Least traffic and arithmetic of one call, for the roofline floor: only bytes that must be
/// written and inputs shown to influence the output.
struct task_cost {
  size_expr bytes;
  size_expr flops;
  friend bool operator==(const task_cost&, const task_cost&) = default;
};

/// All sizes in file order, which is the order of the kernel's arguments. `sizes` and every row of
/// `hidden_sizes` have one value for each of `size_names`. The reference of such a task is the
/// TorchScript text of `forward`.
struct tensor_body final : task_body {
  std::vector<std::string> size_names;
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> hidden_sizes;
  std::vector<input_spec> inputs;
  std::vector<output_spec> outputs;
  task_cost cost;
  /// Text of the plain kernel in the lane's language, same entry points as a candidate; ends with
  /// one newline, empty when absent.
  std::string plain;

  [[nodiscard]] const body_format& format() const override { return tensor_format; }
  [[nodiscard]] bool equals(const task_body& other) const override;
  [[nodiscard]] body_text text() const override;
  /// Names, counts, ranks, dtypes of the lane, distributions that the type does not have, missing
  /// `below`, sizes below 1, limits, empty reference, baseline plain without plain.
  [[nodiscard]] base::status validate(const task& of) const override;
  /// check_reference_text() of check.hpp.
  [[nodiscard]] std::vector<task_finding> check_texts(const task& of) const override;
  [[nodiscard]] bool has_plain() const override { return !plain.empty(); }
  [[nodiscard]] body_words words(const task& of) const override;
};

/// The body of a task of a lane with tensors, for as long as the task keeps it. Throws
/// std::logic_error, naming task and body, where the task has none or another: a lane is asked
/// about its own tasks alone, and validate() refuses a body that is not of the task's lane.
const tensor_body& tensors_of(const task& what);

/// Whether kernels of the lane may have arguments of this type.
bool allowed_in(dtype type, const lane& where);

}  // namespace quern::env
