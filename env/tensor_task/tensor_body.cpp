// Bodies of tensors: whose they are, and what prompts say of them.
#include "env/tensor_task/tensor_body.hpp"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "env/tensor_task/check.hpp"

namespace quern::env {

namespace {

std::string prompt_shape(const std::vector<size_expr>& shape, std::string_view separator) {
  std::string text;
  for (const size_expr& dimension : shape)
    text += fmt::format("{}{}", text.empty() ? "" : separator, dimension.text());
  return "[" + text + "]";
}

std::string prompt_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

/// "x[n,m] idx:i32[k] -> y[n,m]": all that a prompt without prototype has to say about the
/// arguments.
std::string prompt_signature(const tensor_body& what) {
  const auto argument = [](const std::string& name, dtype type,
                           const std::vector<size_expr>& shape) {
    return fmt::format("{}{}{}", name, type == dtype::f32 ? "" : fmt::format(":{}", name_of(type)),
                       prompt_shape(shape, ","));
  };
  std::string text;
  for (const input_spec& input : what.inputs)
    text += argument(input.name, input.type, input.shape) + " ";
  text += "->";
  for (const output_spec& output : what.outputs)
    text += " " + argument(output.name, output.type, output.shape);
  return text;
}

std::string prompt_inputs(const tensor_body& what) {
  std::vector<std::string> lines;
  for (const input_spec& input : what.inputs) {
    lines.push_back(fmt::format(
        "- {}: {} {}{}", input.name, name_of(input.type), prompt_shape(input.shape, ", "),
        input.below ? ", values from 0 to below " + input.below->text() : ""));
  }
  return prompt_lines(lines);
}

std::string prompt_outputs(const tensor_body& what) {
  std::vector<std::string> lines;
  for (const output_spec& output : what.outputs) {
    lines.push_back(fmt::format("- {}: {} {}", output.name, name_of(output.type),
                                prompt_shape(output.shape, ", ")));
  }
  return prompt_lines(lines);
}

std::string prompt_sizes(const tensor_body& what) {
  std::string text;
  for (std::size_t i = 0; i < what.sizes.size(); ++i) {
    text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", what.size_names[i], what.sizes[i]);
  }
  return text;
}

}  // namespace

const tensor_body& tensors_of(const task& what) {
  const auto* tensors = dynamic_cast<const tensor_body*>(what.body.get());
  if (tensors == nullptr)
    throw std::logic_error(
        fmt::format("task '{}' is asked for tensors, its body is {}", what.name,
                    what.body == nullptr ? std::string_view("missing") : what.body->format().name));
  return *tensors;
}

bool allowed_in(dtype type, const lane& where) {
  return std::find(where.element_types.begin(), where.element_types.end(), type) !=
         where.element_types.end();
}

bool tensor_body::equals(const task_body& other) const {
  const auto* tensors = dynamic_cast<const tensor_body*>(&other);
  const auto value = [](const tensor_body& of) {
    return std::tie(of.size_names, of.sizes, of.hidden_sizes, of.inputs, of.outputs, of.cost,
                    of.plain);
  };
  return tensors != nullptr && value(*tensors) == value(*this);
}

std::vector<task_finding> tensor_body::check_texts(const task& of) const {
  return check_reference_text(of);
}

body_words tensor_body::words(const task& /*of*/) const {
  return {prompt_signature(*this), prompt_sizes(*this), prompt_inputs(*this),
          prompt_outputs(*this)};
}

}  // namespace quern::env
