// All that lane `pytorch` is.
#include "env/lanes/pytorch/pytorch_lane.hpp"

#include <array>

#include <fmt/format.h>

#include "env/build/instruction_level.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/judge/runner_end.hpp"
#include "env/lanes/pytorch/gpu/module_gpu.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/lanes/pytorch/module_checker.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/lanes/pytorch/tasks/pytorch_tasks.hpp"
#include "env/lanes/pytorch/text/python_identity.hpp"
#include "env/measure/protocols.hpp"
#include "env/task/lane_on_gpus.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {

namespace {

constexpr std::array<std::string_view, 1> module_protocols{protocol_paired};
constexpr std::array<std::string_view, 4> module_protocols_on_gpus{
    protocol_paired, protocol_cuda_l1_train, protocol_cuda_l1_report, protocol_kernelbench};
constexpr std::array module_baselines_on_gpus{
    baseline_choice::eager, baseline_choice::graph, baseline_choice::compile,
    baseline_choice::reduce_overhead, baseline_choice::max_autotune};

constexpr std::string_view new_module_text =
    R"yaml(# A task whose reference is a Python module, as KernelBench has them.
quern_task: 1
name: @
lane: pytorch
family: softmax                # tasks of one family can be held out together
precision: fp32                # fp32 | fp16 | bf16: what floating inputs and weights are cast to
# Bounds of an element, relative to the root mean square of the result: the judge calibrates them against f64.
tolerance: {atol: 1.0e-4, rtol: 1.0e-4}
baseline: reference
# A module with class Model, get_inputs and, if its constructor has arguments, get_init_inputs.
reference: |
  import torch

  class Model(torch.nn.Module):
      def __init__(self, dim):
          super().__init__()
          self.dim = dim

      def forward(self, x):
          return torch.softmax(x, dim=self.dim)

  def get_inputs():
      return [torch.rand(256, 1024)]

  def get_init_inputs():
      return [1]
)yaml";

base::expected<std::string> new_module_task(std::string_view name) {
  std::string text(new_module_text);
  text.replace(text.find('@'), 1, name);
  QUERN_CHECK(parse_task(text));
  return text;
}

/// A `runtime_error` by how its process ended.
std::string advice_on_ended_module(const verdict& v) {
  if (v.reason == end_reason::closed_channel)
    return "close no file descriptor that the module has not opened: its process answers over one "
           "of the others";
  if (v.reason == end_reason::ended)
    return "return from forward: neither the module nor what it calls may end the process "
           "(os._exit, exit or abort in C++, a library that cannot start a thread)";
  if (v.reason == end_reason::forbidden_call)
    return "leave out what asks the system for more than memory and files of its own folder: the "
           "sandbox ends a process that asks for processes, sockets or other files";
  return "run the constructor of ModelNew and its forward by hand on what get_init_inputs and "
         "get_inputs of the reference return; no file but its own, no process and no second thread "
         "can be had. Behind a signal, look in its C++ for indices past the end, for tensors that "
         "are not contiguous or have another type, and for writes to inputs";
}

std::string module_advice(const verdict& v, const task& /*what*/) {
  switch (v.kind) {
    case verdict_kind::oom:
      return "use less memory: a process has 8 GiB on a core, and half of a GPU's memory";
    case verdict_kind::noisy:
      return "the machine was too busy to measure: try again, measure longer (--budget-s), or give "
             "the evaluator a quieter core";
    case verdict_kind::compile_error:
      return "import the module by hand: the detail is what its import raised. It defines class "
             "ModelNew; while it is imported it has no file but its own, no process and no thread";
    case verdict_kind::runtime_error:
      return advice_on_ended_module(v);
    default:
      return "define class ModelNew with the constructor and the forward of the reference's Model";
  }
}

base::status check_module_programs() {
  QUERN_CHECK(find_module_python());
  return {};
}

constexpr std::string_view same_parameters =
    "ModelNew has the constructor and the forward of Model; its parameters have the names and "
    "shapes of Model's.";

std::vector<std::string> rules_on_core(const suite_policy& /*allowed*/) {
  return {std::string(same_parameters),
          "Inputs are read-only. Results have the shapes and types that Model's have.",
          "The module runs on one core, with one thread, and starts no process."};
}

std::vector<std::string> rules_by_evidence(const suite_policy& allowed) {
  std::vector<std::string> rules;
  if (!allowed.by_evidence) return rules;
  if (!allowed.library_calls)
    rules.emplace_back(
        "No kernel of cuBLAS, cuDNN or another vendor's library runs, and PyTorch's own kernels "
        "take at most half of the device time.");
  if (!allowed.lower_precision)
    rules.emplace_back("No kernel computes in a narrower type than the task's.");
  if (!allowed.graphs) rules.emplace_back("No CUDA graph is replayed.");
  return rules;
}

std::vector<std::string> rules_on_gpu(const suite_policy& allowed) {
  std::vector<std::string> rules{
      std::string(same_parameters),
      "Inputs are read-only tensors on the GPU. Results have the shapes and types that Model's "
      "have.",
      "Triton kernels and extensions of torch.utils.cpp_extension (load_inline) are compiled "
      "before the module runs; torch.compile, CuTe and TileLang cannot be used.",
      "The module starts no process and no thread."};
  for (std::string& one : rules_by_evidence(allowed))
    rules.push_back(std::move(one));
  return rules;
}

const lane_on_gpus modules_on_gpus{
    .usual_device_class = "H200-SXM-torch",
    .protocols = module_protocols_on_gpus,
    .baselines = module_baselines_on_gpus,
    .device_class = module_device_class_of,
    .restrictions = rules_on_gpu,
    .check_devices = check_module_gpus,
};

base::expected<std::unique_ptr<candidate_judge>> open_module_judge(evaluator_options options) {
  if (options.on_gpu) {
    QUERN_TRY(auto opened, pytorch_device_evaluator::open(std::move(options)));
    return opened;
  }
  QUERN_TRY(auto opened, pytorch_evaluator::open(std::move(options)));
  return opened;
}

base::expected<std::unique_ptr<task_checker>> open_whole_checker(const evaluator_options& options) {
  return options.on_gpu ? open_device_module_checker(options) : open_module_checker(options);
}

}  // namespace

std::string torch_device_class() {
  return "cpu-torch-" + instruction_level();
}

const lane pytorch_lane{
    .name = "pytorch",
    .summary = "Python modules with PyTorch, on a GPU or on one core",
    .language = "Python with PyTorch",
    .file_ending = ".py",
    .fence = "python",
    .device = device_kind::core,
    .on_gpus_too = &modules_on_gpus,
    .usual_device_class = "cpu-torch-avx2",
    .body = &pytorch_format,
    .tasks_from = &pytorch_tasks,
    .element_types = {},
    .baselines = {},
    .protocols = module_protocols,
    .host_code_is_optional = false,
    .least_baseline_ns = 100'000,
    .usual_recheck_above_e2 = 300,
    .corpus_tasks_ahead = 0,
    .identity = python_hash,
    .entry = [](const task&) { return std::string("class ModelNew(torch.nn.Module)"); },
    .optional_entry = nullptr,
    .restrictions = rules_on_core,
    .advice = module_advice,
    .new_task = new_module_task,
    .open_judge = open_module_judge,
    .open_checker = open_whole_checker,
    .open_quick_checker = open_module_checker,
    .check_programs = check_module_programs,
    .try_compiler = nullptr,
    .device_class = [](int /*gpu*/) { return base::expected<std::string>(torch_device_class()); },
    .grammar = nullptr,
};

}  // namespace quern::env
