// All that lane `cpp` is.
#include "env/lanes/cpp/cpp_lane.hpp"

#include <array>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "env/build/instruction_level.hpp"
#include "env/build/tool.hpp"
#include "env/core/candidate_checks.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/explain.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/cpp/build/cpp_compiler.hpp"
#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/lanes/cpp/cpp_oracle.hpp"
#include "env/lanes/cpp/grammar/cpp_grammar.hpp"
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

constexpr std::array cpp_types{dtype::f32, dtype::f64, dtype::i32, dtype::i64, dtype::u8};

constexpr std::array<std::string_view, 2> cpp_protocols{protocol_paired, protocol_cost_model};

constexpr std::string_view plain_cpp = R"yaml(plain: |
  extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace,
                         void* stream) {
    for (int64_t i = 0; i < n; ++i) {
      float top = x[i * m];
      for (int64_t j = 1; j < m; ++j) top = x[i * m + j] > top ? x[i * m + j] : top;
      float sum = 0;
      for (int64_t j = 0; j < m; ++j) {
        y[i * m + j] = expf(x[i * m + j] - top);
        sum += y[i * m + j];
      }
      for (int64_t j = 0; j < m; ++j) y[i * m + j] /= sum;
    }
  }
)yaml";

std::vector<std::string> cpp_restrictions(const suite_policy& allowed) {
  std::vector<std::string> all = rules::restrictions(allowed.lower_precision);
  all.emplace_back(
      "<cmath>, <cstdint> and the compiler's intrinsics are included already; other headers are "
      "refused.");
  all.emplace_back("The kernel runs on one core.");
  return all;
}

std::string cpp_advice(const verdict& v, const task& /*what*/) {
  if (const auto ended = advice_on_ended_kernel(v); !ended.empty()) return std::string(ended);
  switch (v.kind) {
    case verdict_kind::rejected_static:
      return "remove what the rule names; only the prelude's headers, pragmas and object-like "
             "constants are allowed";
    case verdict_kind::oom:
      return fmt::format("use less memory: ask for scratch with workspace_bytes, at most {} MiB",
                         max_workspace_bytes >> 20);
    case verdict_kind::noisy:
      return "the machine was too busy to measure: try again, or give the evaluator a quieter core";
    default:
      return "look for indices past the end at sizes that are no multiple of the vector width; "
             "`--explain` lists the sizes";
  }
}

base::status check_cpp_programs() {
  QUERN_CHECK(base::sibling_program("quern-runner"));
  QUERN_CHECK(find_compiler());
  return {};
}

/// Compiles a kernel as an evaluator does, which also leaves the precompiled prelude for later.
base::expected<std::string> try_cpp_compiler() {
  QUERN_TRY(const auto children, spawner::create(sandbox_mode::best_effort));
  QUERN_TRY(const auto folder, base::temp_folder::make("quern-doctor"));
  cpp_compiler_options options;
  options.cache_dir = folder.path();
  options.prelude_dir = base::user_cache_folder();
  QUERN_TRY(const auto compiler, cpp_compiler::create(*children, std::move(options)));
  cpp_compile_request request;
  request.source = "extern \"C\" void kernel() {}\n";
  QUERN_TRY(const auto built, compiler->compile(request));
  if (built.outcome != compile_result::kind::built)
    return base::fail(base::errc::unavailable, "it does not compile a kernel: {}", built.text);
  return compiler->version();
}

base::expected<std::unique_ptr<candidate_judge>> open_cpp_judge(evaluator_options options) {
  QUERN_TRY(auto opened, cpp_evaluator::open(std::move(options)));
  return opened;
}

}  // namespace

std::string cpu_device_class() {
  return "cpp-" + instruction_level();
}

const lane cpp_lane{
    .name = "cpp",
    .summary = "C++ on one core",
    .language = "C++20",
    .file_ending = ".cpp",
    .fence = "cpp",
    .device = device_kind::core,
    .usual_device_class = "cpp-avx2",
    .body = &tensor_format,
    .tasks_from = nullptr,
    .element_types = cpp_types,
    .baselines = {},
    .protocols = cpp_protocols,
    .host_code_is_optional = false,
    .least_baseline_ns = 100'000,
    .usual_recheck_above_e2 = 3000,
    .corpus_tasks_ahead = 0,
    .identity = source_hash,
    .entry = [](const task& what) { return kernel_prototype(what, "void* "); },
    .optional_entry = workspace_prototype,
    .restrictions = cpp_restrictions,
    .advice = cpp_advice,
    .new_task =
        [](std::string_view name) {
          return new_kernel_task(name, cpp_lane, {"256", plain_cpp});
        },
    .open_judge = open_cpp_judge,
    .open_checker = open_tensor_checker<open_cpp_oracle>,
    .open_quick_checker = open_tensor_checker<open_cpp_oracle>,
    .check_programs = check_cpp_programs,
    .try_compiler = try_cpp_compiler,
    .device_class = [](int /*gpu*/) { return base::expected<std::string>(cpu_device_class()); },
    .grammar = cpp_grammar,
};

}  // namespace quern::env
