// What the process of a reference says of its module: the arguments of its model, and what that
// gives and holds. The text is untrusted: everything is bounded and checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/tensor_task/dtype.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// A tensor that goes between processes: contiguous, of one of our types. A bool is a byte.
struct module_tensor {
  dtype type = dtype::f32;
  bool is_bool = false;
  std::vector<std::int64_t> shape;
};

/// One argument of forward: a tensor, or a value as Python writes it.
struct module_argument {
  module_tensor tensor;
  std::string value;  ///< empty: it is a tensor
};

/// One tensor that a model holds, in the order of its modules.
struct module_weight {
  std::string kind;  ///< parameter, buffer or attribute
  std::string name;
  module_tensor tensor;
};

struct module_output {
  module_tensor tensor;
  bool contiguous = true;
};

struct module_sheet {
  std::string init;  ///< the list that get_init_inputs returns, as Python writes it
  std::vector<module_argument> arguments;
  std::vector<module_weight> weights;
  std::vector<module_output> outputs;
  bool returns_tuple = false;
  bool keeps_state = false;  ///< the same call again gives another result
  bool draws = false;        ///< random numbers of forward decide the result
  bool repeats = true;       ///< with equal state, numbers and inputs it gives an equal result
  bool is_constant = false;  ///< every output has one value everywhere
  /// Of a model on a GPU: its constructor, which does not run there, drew its numbers on a core.
  bool drawn_on_core = false;
};

/// Longest sheet; most arguments and outputs together are runner::max_tensors.
inline constexpr std::size_t max_sheet_bytes = std::size_t{4} << 20;
inline constexpr std::size_t max_module_weights = 20'000;

/// Error: invalid_argument, naming what is missing or out of bounds.
base::expected<module_sheet> parse_module_sheet(std::string_view text);

/// The tensors of its calls with their bytes: inputs arg0, arg1, …, outputs out0, out1, …. Error: a
/// tensor beyond max_tensor_bytes, or without elements.
base::expected<task_instance> instance_of(const module_sheet& sheet);

/// Layouts of the weights, one after the other.
base::expected<std::vector<tensor_layout>> weight_layouts(const module_sheet& sheet);

/// What a candidate's process is told of arguments and weights: the parts `inputs` and `weights` of
/// a question `construct`.
base::json arguments_json(const module_sheet& sheet);
base::json weights_json(const module_sheet& sheet);

}  // namespace quern::env
