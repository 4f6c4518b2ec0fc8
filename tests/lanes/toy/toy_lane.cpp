#include "lanes/toy/toy_lane.hpp"

#include <array>
#include <cstdlib>

#include "env/measure/measure_name.hpp"
#include "env/measure/protocols.hpp"
#include "env/task/task_check.hpp"
#include "env/task/task_codec.hpp"
#include "lanes/toy/toy_body.hpp"
#include "lanes/toy/toy_judge.hpp"

namespace quern::env {

namespace {

constexpr std::array<std::string_view, 1> toy_protocols{protocol_paired};

constexpr std::string_view new_toy = R"yaml(# A toy: a text that is to be short.
quern_task: 1
name: @
lane: toy
family: toys
word: kernel
tolerance: {atol: 0, rtol: 0}
baseline: reference
lines: 40
reference: |
  Say it in few lines.
)yaml";

base::expected<std::string> new_toy_task(std::string_view name) {
  std::string text(new_toy);
  text.replace(text.find('@'), 1, name);
  QUERN_CHECK(parse_task(text));
  return text;
}

/// A toy has nothing to run or to time; its texts are all that can be wrong.
class toy_checker final : public task_checker {
 public:
  base::expected<task_report> check(const task& what, std::uint64_t /*seed*/) override {
    QUERN_CHECK(validate(what));
    task_report report;
    report.findings = what.body->check_texts(what);
    report.baseline_ns = 1'000'000;
    return report;
  }
  base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                            plain_baselines /*plain*/) override {
    return check(what, seed);
  }
};

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
  made.open_checker = nullptr;
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
    .body = &toy_format,
    .tasks_from = nullptr,
    .element_types = {},
    .baselines = {},
    .protocols = toy_protocols,
    .host_code_is_optional = false,
    .least_baseline_ns = 1,
    .usual_recheck_above_e2 = 100'000,
    .corpus_tasks_ahead = 0,
    .identity = [](std::string_view source) { return base::xxh128(lower_case(source)); },
    .entry = [](const task& what) { return "a text with " + toy_of(what).word; },
    .optional_entry = [](const task&) { return std::string("a title"); },
    .restrictions = [](const suite_policy&) { return std::vector<std::string>{"Be short."}; },
    .advice = [](const verdict&, const task&) { return std::string("be shorter"); },
    .new_task = new_toy_task,
    .open_judge = [](evaluator_options options) { return open_toy_judge(toy_lane, options); },
    .open_checker =
        [](const evaluator_options&) {
          return base::expected<std::unique_ptr<task_checker>>(std::make_unique<toy_checker>());
        },
    // Runs read its texts, and try nothing.
    .open_quick_checker = nullptr,
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
