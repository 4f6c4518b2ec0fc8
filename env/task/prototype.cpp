// Text of the entry points of a task's kernel.
#include "env/task/prototype.hpp"

#include <fmt/format.h>

namespace quern::env {

namespace {

std::string size_parameters(const task& what) {
  std::string text;
  for (const std::string& name : what.size_names) {
    text += fmt::format("{}int64_t {}", text.empty() ? "" : ", ", name);
  }
  return text;
}

}  // namespace

std::string kernel_prototype(const task& what, std::string_view stream) {
  std::string text = "extern \"C\" void kernel(";
  for (const input_spec& input : what.inputs) {
    text += fmt::format("const {}* {}, ", cpp_name_of(input.type), input.name);
  }
  for (const output_spec& output : what.outputs) {
    text += fmt::format("{}* {}, ", cpp_name_of(output.type), output.name);
  }
  return text + size_parameters(what) + fmt::format(", void* workspace, {}stream)", stream);
}

std::string workspace_prototype(const task& what) {
  return "extern \"C\" int64_t workspace_bytes(" + size_parameters(what) + ")";
}

}  // namespace quern::env
