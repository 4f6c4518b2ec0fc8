#include "lanes/toy/toy_lane.hpp"

#include <array>
#include <cstdlib>

#include "base/program.hpp"
#include "env/judge/compiling_oracle.hpp"
#include "env/measure/measure_name.hpp"
#include "env/measure/protocols.hpp"
#include "env/runner/reference_service.hpp"
#include "env/task/check.hpp"
#include "env/task/new_task.hpp"
#include "env/task/prototype.hpp"
#include "lanes/toy/toy_judge.hpp"

namespace quern::env {

namespace {

constexpr std::array toy_types{dtype::f32};
constexpr std::array<std::string_view, 1> toy_protocols{protocol_paired};

/// References run as those of lane cpp do; what they take is not measured.
class toy_oracle final : public reference_oracle {
 public:
  explicit toy_oracle(std::unique_ptr<reference_service> service) : service_(std::move(service)) {}

  base::expected<std::vector<tensor_bytes>> run(const task& what, const task_instance& at,
                                                std::span<const tensor_bytes> inputs,
                                                bool in_f64) override {
    QUERN_TRY(auto runner, service_->open(what.reference, -1));
    return runner.run(at, inputs, in_f64);
  }
  base::expected<std::int64_t> time_baseline(const task&, const task_instance&,
                                             std::span<const tensor_bytes>) override {
    return 1'000'000;
  }

 private:
  std::unique_ptr<reference_service> service_;
};

base::expected<std::unique_ptr<reference_oracle>> open_toy_oracle(
    const evaluator_options& options) {
  QUERN_TRY(const auto program, base::sibling_program("quern-torch"));
  const auto mode = options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_TRY(auto service, reference_service::start(program, mode));
  return std::make_unique<toy_oracle>(std::move(service));
}

/// Nothing is needed, unless a test takes it away.
base::status check_toy_programs() {
  const char* lacks = std::getenv("QUERN_TOY_LACKS");
  if (lacks == nullptr) return {};
  return base::fail(base::errc::not_found, "{} is not here: buy one", lacks);
}

/// The toy on GPUs: a device class for each, so that a test sees which one a judge was given.
lane on_gpus(std::string_view name, std::string_view ending,
             decltype(lane::open_judge) open_judge) {
  lane made = toy_lane;
  made.name = name;
  made.file_ending = ending;
  made.device = device_kind::gpu;
  made.open_judge = open_judge;
  made.device_class = [](int gpu) {
    return base::expected<std::string>("toy-gpu-" + std::to_string(gpu));
  };
  return made;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

const lane toy_lane{
    .name = "toy",
    .summary = "texts that are judged by their length",
    .language = "text",
    .file_ending = ".txt",
    .fence = "text",
    .device = device_kind::core,
    .usual_device_class = "toy-text",
    .element_types = toy_types,
    .baselines = {},
    .protocols = toy_protocols,
    .host_code_is_optional = false,
    .least_baseline_ns = 1,
    .usual_recheck_above_e2 = 100'000,
    .corpus_tasks_ahead = 0,
    .identity = [](std::string_view source) { return base::xxh128(lower_case(source)); },
    .entry = [](const task& what) { return kernel_prototype(what, "void* "); },
    .optional_entry = workspace_prototype,
    .restrictions = [](const suite_policy&) { return std::vector<std::string>{"Be short."}; },
    .advice = [](const verdict&, const task&) { return std::string("be shorter"); },
    .new_task =
        [](std::string_view name) {
          return new_kernel_task(name, toy_lane, {"256", {}});
        },
    .open_judge = [](evaluator_options options) { return open_toy_judge(toy_lane, options); },
    .open_oracle = open_toy_oracle,
    .open_quick_oracle = open_compiling_oracle,
    .check_programs = check_toy_programs,
    .try_compiler = nullptr,
    .device_class = [](int) { return base::expected<std::string>("toy-text"); },
    .grammar = nullptr,
};

const lane toy_gpu_lane = on_gpus("toy_gpu", ".toy_gpu", [](evaluator_options options) {
  return open_toy_judge(toy_gpu_lane, options);
});

const lane other_toy_gpu_lane =
    on_gpus("other_toy_gpu", ".other_toy_gpu",
            [](evaluator_options options) { return open_toy_judge(other_toy_gpu_lane, options); });

}  // namespace quern::env
