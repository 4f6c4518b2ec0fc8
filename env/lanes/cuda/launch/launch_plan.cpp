// From a file to a plan, and from a plan to the steps of one call.
#include "env/lanes/cuda/launch/launch_plan.hpp"

#include <fmt/format.h>

#include "env/lanes/cuda/launch/evaluate.hpp"
#include "env/lanes/cuda/launch/parser.hpp"
#include "env/lanes/cuda/launch/program.hpp"
#include "env/lanes/cuda/launch/unit.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

using plan::evaluator;

base::error evaluation_failure(const plan::evaluation_error& what) {
  return {what.code,
          fmt::format("line {}, column {}: {}", what.at.line, what.at.column, what.text)};
}

base::status check_call_sizes(const plan::program& program, std::size_t found) {
  const std::size_t wanted = program.signature.sizes.size();
  if (found == wanted) return {};
  return base::fail(base::errc::invalid_argument, "a call with {} sizes, the kernel has {}", found,
                    wanted);
}

plan::value plan_integer(std::int64_t number) {
  plan::value made;
  made.word[0] = number;
  return made;
}

plan::value plan_address(plan_buffer buffer, std::size_t index) {
  plan::value made;
  made.word = {0, static_cast<std::int64_t>(buffer), static_cast<std::int64_t>(index)};
  return made;
}

// Directives inside what is taken out would be lost for the rest of the file; a macro that makes
// more than the function cannot be taken out at all.
std::optional<plan_error> check_blanked(const plan::unit& unit, const plan::token_range& range) {
  const auto& tokens = unit.tokens;
  const plan::plan_token& first = tokens[range.first];
  const plan::plan_token& last = tokens[range.last - 1];
  for (const plan::directive& one : unit.directives) {
    if (one.begin < first.begin || one.begin >= last.end || one.name == "pragma") continue;
    return plan_error{one.line, one.column,
                      fmt::format("'#{}' inside a host function: allowed outside", one.name)};
  }
  const bool begins_inside = range.first > 0 && tokens[range.first - 1].end > first.begin;
  const bool ends_inside = last.end > tokens[range.last].begin;
  if (begins_inside || ends_inside) {
    return plan_error{first.line, first.column, "a host function that a macro makes with more"};
  }
  return std::nullopt;
}

tl::expected<std::string, plan_error> device_source_of(std::string_view source,
                                                       const plan::unit& unit) {
  std::vector<plan::token_range> ranges;
  for (const plan::declaration& one : unit.declarations) {
    if (!plan::host_only(one)) continue;
    // Only of functions that are defined here: `int x(5);` looks like a declaration of one.
    const auto named = unit.by_name.find(one.qualified);
    bool defined = one.defined;
    if (!defined && named != unit.by_name.end()) {
      for (const std::size_t index : named->second)
        defined = defined ||
                  (unit.declarations[index].defined && plan::host_only(unit.declarations[index]));
    }
    if (!defined) continue;
    if (auto error = check_blanked(unit, one.whole)) return tl::make_unexpected(*error);
    ranges.push_back(one.whole);
  }
  return plan::blanked(source, unit, ranges);
}

}  // namespace

plan_signature signature_of(const task& what) {
  plan_signature made;
  for (const input_spec& one : tensors_of(what).inputs)
    made.inputs.push_back({one.name, one.type});
  for (const output_spec& one : tensors_of(what).outputs)
    made.outputs.push_back({one.name, one.type});
  made.sizes = tensors_of(what).size_names;
  return made;
}

plan_call call_of(const task_instance& instance, std::int64_t workspace_bytes) {
  plan_call made;
  made.sizes = instance.sizes;
  for (const tensor_layout& one : instance.inputs)
    made.input_bytes.push_back(one.bytes);
  for (const tensor_layout& one : instance.outputs)
    made.output_bytes.push_back(one.bytes);
  made.workspace_bytes = workspace_bytes;
  return made;
}

std::string to_string(const plan_error& what) {
  return fmt::format("line {}, column {}: {}", what.line, what.column, what.text);
}

const std::string& launch_plan::device_source() const {
  return program_->device_source;
}

const std::vector<plan_kernel>& launch_plan::kernels() const {
  return program_->kernels;
}

std::vector<std::string> launch_plan::kernel_names() const {
  std::vector<std::string> names;
  for (const plan_kernel& one : program_->kernels)
    names.push_back(one.name);
  return names;
}

base::expected<std::int64_t> launch_plan::workspace(std::span<const std::int64_t> sizes) const {
  QUERN_CHECK(check_call_sizes(*program_, sizes.size()));
  if (program_->workspace_function == plan::no_node) return 0;
  std::vector<plan::value> arguments;
  for (const std::int64_t one : sizes)
    arguments.push_back(plan_integer(one));
  evaluator run(*program_);
  plan::value result;
  if (!run.run(program_->workspace_function, arguments, result))
    return tl::make_unexpected(evaluation_failure(run.error()));
  if (result.word[0] < 0) {
    return base::fail(base::errc::corrupt, "workspace_bytes is {}, at least 0", result.word[0]);
  }
  return result.word[0];
}

base::expected<std::vector<launch_step>> launch_plan::steps(const plan_call& call) const {
  const plan_signature& signature = program_->signature;
  QUERN_CHECK(check_call_sizes(*program_, call.sizes.size()));
  if (call.input_bytes.size() != signature.inputs.size() ||
      call.output_bytes.size() != signature.outputs.size()) {
    return base::fail(base::errc::invalid_argument,
                      "a call with {} inputs and {} outputs, the kernel has {} and {}",
                      call.input_bytes.size(), call.output_bytes.size(), signature.inputs.size(),
                      signature.outputs.size());
  }
  std::vector<plan::value> arguments;
  for (std::size_t i = 0; i < signature.inputs.size(); ++i)
    arguments.push_back(plan_address(plan_buffer::input, i));
  for (std::size_t i = 0; i < signature.outputs.size(); ++i)
    arguments.push_back(plan_address(plan_buffer::output, i));
  for (const std::int64_t one : call.sizes)
    arguments.push_back(plan_integer(one));
  arguments.push_back(plan_address(plan_buffer::workspace, 0));
  arguments.push_back({});  // the stream
  evaluator run(*program_, &call);
  plan::value result;
  if (!run.run(program_->kernel_function, arguments, result))
    return tl::make_unexpected(evaluation_failure(run.error()));
  return run.take_steps();
}

tl::expected<launch_plan, plan_error> parse_launch_plan(std::string_view source,
                                                        const plan_signature& signature) {
  auto unit = plan::read_unit(source);
  if (!unit) return tl::make_unexpected(unit.error());
  auto program = std::make_shared<plan::program>();
  program->signature = signature;
  // Number 0 of each stands for what an error left unread.
  program->expressions.emplace_back().type = plan::number_of(plan::scalar::int_type);
  program->statements.emplace_back();
  if (auto error = plan::parser(*unit, *program).run()) return tl::make_unexpected(*error);
  auto device = device_source_of(source, *unit);
  if (!device) return tl::make_unexpected(device.error());
  program->device_source = std::move(*device);
  return launch_plan(std::move(program));
}

}  // namespace quern::env
