// Text of the entry points of a task's kernel.
#include "env/tensor_task/prototype.hpp"

#include <fmt/format.h>

#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

std::string size_parameters(const task& what) {
  std::string text;
  for (const std::string& name : tensors_of(what).size_names) {
    text += fmt::format("{}int64_t {}", text.empty() ? "" : ", ", name);
  }
  return text;
}

}  // namespace

std::string kernel_prototype(const task& what, std::string_view stream) {
  const tensor_body& tensors = tensors_of(what);
  std::string text = "extern \"C\" void kernel(";
  for (const input_spec& input : tensors.inputs) {
    text += fmt::format("const {}* {}, ", cpp_name_of(input.type), input.name);
  }
  for (const output_spec& output : tensors.outputs) {
    text += fmt::format("{}* {}, ", cpp_name_of(output.type), output.name);
  }
  return text + size_parameters(what) + fmt::format(", void* workspace, {}stream)", stream);
}

std::string workspace_prototype(const task& what) {
  return "extern \"C\" int64_t workspace_bytes(" + size_parameters(what) + ")";
}

}  // namespace quern::env
