// All that lane `cuda` is.
#include "env/lanes/cuda/cuda_lane.hpp"

#include <array>

#include "base/program.hpp"
#include "env/build/cuda_toolkit.hpp"
#include "env/build/tool.hpp"
#include "env/device/gpu_class.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/device_oracle.hpp"
#include "env/judge/compiling_oracle.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/explain.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/lanes/cuda/grammar/cuda_grammar.hpp"
#include "env/measure/measure_name.hpp"
#include "env/measure/protocols.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/common_rules.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/new_task.hpp"
#include "env/tensor_task/prototype.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {

namespace {

constexpr std::array cuda_types{dtype::f32, dtype::f64,  dtype::i32, dtype::i64,
                                dtype::u8,  dtype::bf16, dtype::f16};

constexpr std::array<std::string_view, 5> cuda_protocols{protocol_paired, protocol_cuda_l1_train,
                                                         protocol_cuda_l1_report,
                                                         protocol_kernelbench, protocol_cost_model};

constexpr std::array cuda_baselines{baseline_choice::eager, baseline_choice::graph,
                                    baseline_choice::compile, baseline_choice::plain};

std::vector<std::string> cuda_restrictions(const suite_policy& allowed) {
  std::vector<std::string> all = rules::restrictions(allowed.lower_precision);
  all.emplace_back("Launch every kernel on the given stream and make no streams of your own.");
  if (!allowed.library_calls) all.emplace_back("Call no kernels of libraries.");
  if (!allowed.graphs) all.emplace_back("Capture no CUDA graphs.");
  if (!allowed.host_entry) {
    all.emplace_back("The host function only computes sizes and launches kernels.");
  }
  return all;
}

std::string cuda_advice(const verdict& v, const task& /*what*/) {
  if (const auto ended = advice_on_ended_kernel(v); !ended.empty()) return std::string(ended);
  switch (v.kind) {
    case verdict_kind::rejected_static:
      if (v.reason == "host_entry")
        return "write `kernel` as arithmetic of sizes, conditions on them and launches "
               "(docs/formats/launch_plan.md), or allow host code: --allow host_entry";
      return "remove what the rule names; docs/integrity.md says what each is for";
    case verdict_kind::oom:
      return "use less device memory: scratch is what workspace_bytes asks for, and its limit is "
             "in docs/formats/launch_plan.md";
    case verdict_kind::noisy:
      return "the GPU or its host was too busy to measure: try again with nothing else on it";
    default:
      return "where a launch is named: see what its grid, block and arguments are at that size; "
             "else look for indices past the end at sizes that are no multiple of the block or the "
             "vector width (`--explain` lists the sizes)";
  }
}

base::status check_cuda_programs() {
  QUERN_CHECK(base::sibling_program("quern-runner"));
  // Without a GPU nothing is compiled here, and CUDA need not be installed.
  if (!has_nvidia_driver()) return {};
  QUERN_CHECK(find_cuda_toolkit());
  // nvcc compiles host code with it, and so does what serves the baseline `compile`.
  QUERN_CHECK(find_compiler());
  return {};
}

base::expected<std::unique_ptr<candidate_judge>> open_cuda_judge(evaluator_options options) {
  QUERN_TRY(auto opened, cuda_evaluator::open(std::move(options)));
  return opened;
}

}  // namespace

const lane cuda_lane{
    .name = "cuda",
    .summary = "CUDA C++ on a GPU",
    .language = "CUDA C++",
    .file_ending = ".cu",
    // CUDA C++ is marked as C++.
    .fence = "cpp",
    .device = device_kind::gpu,
    .usual_device_class = "H200-SXM",
    .body = &tensor_format,
    .tasks_from = nullptr,
    .element_types = cuda_types,
    .baselines = cuda_baselines,
    .protocols = cuda_protocols,
    .host_code_is_optional = true,
    .least_baseline_ns = 20'000,
    .usual_recheck_above_e2 = 300,
    .corpus_tasks_ahead = 12,
    .identity = source_hash,
    .entry = [](const task& what) { return kernel_prototype(what, "cudaStream_t "); },
    .optional_entry = workspace_prototype,
    .restrictions = cuda_restrictions,
    .advice = cuda_advice,
    // A plain C++ kernel cannot run on a GPU: such a task is measured against the reference.
    .new_task =
        [](std::string_view name) {
          return new_kernel_task(name, cuda_lane, {"16384", {}});
        },
    .open_judge = open_cuda_judge,
    .open_checker = open_tensor_checker<open_device_oracle>,
    .open_quick_checker = open_tensor_checker<open_compiling_oracle>,
    .check_programs = check_cuda_programs,
    .try_compiler = nullptr,
    .device_class = gpu_device_class_of,
    .grammar = cuda_grammar,
};

}  // namespace quern::env
