// Tasks at given sizes.
#include "env/tensor_task/task_instance.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/text.hpp"
#include "env/tensor_task/elements.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

base::expected<tensor_layout> lay_out(const task& what, std::span<const std::int64_t> sizes,
                                      const std::string& name, dtype type,
                                      const std::vector<size_expr>& shape) {
  tensor_layout result;
  result.name = name;
  result.type = type;
  for (const size_expr& dimension : shape) {
    QUERN_TRY(const std::int64_t extent, dimension.evaluate(tensors_of(what).size_names, sizes));
    if (extent < 1) {
      return base::fail(
          base::errc::invalid_argument,
          "tensor '{}' of task {}: dimension '{}' is {} at these sizes, it must be at least 1",
          name, what.name, dimension.text(), extent);
    }
    result.shape.push_back(extent);
    if (__builtin_mul_overflow(result.elements, extent, &result.elements) ||
        result.elements > max_tensor_bytes / static_cast<std::int64_t>(size_of(type))) {
      return base::fail(
          base::errc::invalid_argument,
          "tensor '{}' of task {} has more than {} at these sizes: make the sizes smaller", name,
          what.name, base::human_bytes(max_tensor_bytes));
    }
  }
  result.bytes = result.elements * static_cast<std::int64_t>(size_of(type));
  return result;
}

/// Largest exclusive bound of an integer type's values; none for a floating type.
std::optional<std::int64_t> bound_of(dtype type) {
  return visit_element(type, [](auto element) -> std::optional<std::int64_t> {
    using T = decltype(element);
    if constexpr (is_floating_element<T>)
      return std::nullopt;
    else if constexpr (sizeof(T) < sizeof(std::int64_t))
      return std::int64_t{std::numeric_limits<T>::max()} + 1;
    else
      return std::numeric_limits<T>::max();
  });
}

}  // namespace

base::expected<task_instance> instantiate(const task& what, std::span<const std::int64_t> sizes) {
  const tensor_body& tensors = tensors_of(what);
  if (sizes.size() != tensors.size_names.size()) {
    return base::fail(base::errc::invalid_argument, "task {} has {} sizes, {} values were given",
                      what.name, tensors.size_names.size(), sizes.size());
  }
  task_instance result;
  result.sizes.assign(sizes.begin(), sizes.end());
  for (const input_spec& input : tensors.inputs) {
    QUERN_TRY(tensor_layout layout, lay_out(what, sizes, input.name, input.type, input.shape));
    if (input.below) {
      QUERN_TRY(layout.below, input.below->evaluate(tensors.size_names, sizes));
      const auto bound = bound_of(input.type);
      if (!bound)
        return base::fail(base::errc::invalid_argument,
                          "input '{}' of task {} is {} and has 'below', which is for integers: "
                          "leave it out",
                          input.name, what.name, name_of(input.type));
      if (layout.below < 1 || layout.below > *bound) {
        return base::fail(base::errc::invalid_argument,
                          "input '{}' of task {}: below '{}' is {} at these sizes, it must be "
                          "between 1 and {} for {}",
                          input.name, what.name, input.below->text(), layout.below, *bound,
                          name_of(input.type));
      }
    }
    result.inputs.push_back(std::move(layout));
  }
  for (const output_spec& output : tensors.outputs) {
    QUERN_TRY(tensor_layout layout, lay_out(what, sizes, output.name, output.type, output.shape));
    result.outputs.push_back(std::move(layout));
  }
  QUERN_TRY(result.cost_bytes, tensors.cost.bytes.evaluate(tensors.size_names, sizes));
  QUERN_TRY(result.cost_flops, tensors.cost.flops.evaluate(tensors.size_names, sizes));
  if (result.cost_bytes < 0 || result.cost_flops < 0) {
    return base::fail(
        base::errc::invalid_argument,
        "cost of task {} is negative at these sizes ({} bytes, {} flops): correct the expressions",
        what.name, result.cost_bytes, result.cost_flops);
  }
  return result;
}

std::vector<distribution> hidden_distributions(const task& what, int round) {
  std::vector<distribution> result;
  for (const input_spec& input : tensors_of(what).inputs) {
    const std::size_t hidden = input.dists.size() - 1;
    result.push_back(hidden == 0 ? input.dists[0]
                                 : input.dists[1 + static_cast<std::size_t>(round) % hidden]);
  }
  return result;
}

int hidden_rounds(const task& what) {
  std::size_t rounds = 1;
  for (const input_spec& input : tensors_of(what).inputs)
    rounds = std::max(rounds, input.dists.size() - 1);
  return static_cast<int>(rounds);
}

std::vector<distribution> timed_distributions(const task& what) {
  std::vector<distribution> result;
  for (const input_spec& input : tensors_of(what).inputs)
    result.push_back(input.dists[0]);
  return result;
}

}  // namespace quern::env
