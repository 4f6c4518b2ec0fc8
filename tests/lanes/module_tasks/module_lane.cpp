#include "lanes/module_tasks/module_lane.hpp"

#include <algorithm>
#include <array>

#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "env/lanes/pytorch/tasks/pytorch_tasks.hpp"
#include "env/measure/protocols.hpp"
#include "env/task/reference_timer.hpp"
#include "env/task/task_check.hpp"
#include "env/task/task_codec.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

namespace {

constexpr std::array<std::string_view, 1> module_protocols{protocol_paired};

constexpr std::string_view new_module = R"yaml(quern_task: 1
name: @
lane: modules
family: modules
tolerance: {atol: 0.0001, rtol: 0.0001}
baseline: reference
reference: |
  import torch

  class Model(torch.nn.Module):
      def forward(self, x):
          return x

  def get_inputs():
      return [torch.rand(4)]
)yaml";

base::expected<std::string> new_module_task(std::string_view name) {
  std::string text(new_module);
  text.replace(text.find('@'), 1, name);
  QUERN_CHECK(parse_task(text));
  return text;
}

/// A candidate that defines ModelNew is right, and as much faster as it has fewer lines.
class module_judge final : public candidate_judge {
 public:
  verdict evaluate(const evaluation_request& request) override {
    verdict v;
    v.task = task_id(*request.subject);
    v.source = base::to_hex(module_lane.identity(request.source));
    v.protocol = request.protocol;
    v.device_class = class_;
    v.env = environment_;
    const auto lines = [](const std::string& text) {
      return std::max<std::int64_t>(std::count(text.begin(), text.end(), '\n'), 1);
    };
    v.kind = request.source.find("ModelNew") == std::string::npos ? verdict_kind::compile_error
                                                                  : verdict_kind::ok;
    if (v.kind == verdict_kind::ok)
      v.speedup_e2 = 100 * lines(request.subject->reference) / lines(request.source);
    v.confirmed = true;
    return v;
  }
  void warm_up() override {}
  void compile_ahead(const evaluation_request&) override {}
  [[nodiscard]] const env::lane& lane() const override { return module_lane; }
  [[nodiscard]] const std::string& device_class() const override { return class_; }
  [[nodiscard]] const std::string& environment() const override { return environment_; }
  [[nodiscard]] stage_seconds stages() const override { return {}; }

 private:
  std::string class_ = "module-text";
  std::string environment_ = std::string(32, '0');
};

/// A reference takes as many milliseconds as it has lines, whatever is asked for.
class line_timer final : public reference_timer {
 public:
  [[nodiscard]] base::status check_mode(reference_mode mode) const override {
    if (mode == reference_mode::eager) return {};
    return base::fail(base::errc::unavailable, "lines are counted in one way");
  }
  [[nodiscard]] std::string device() const override { return "cpu"; }
  [[nodiscard]] std::string device_class() const override { return "module-text"; }
  [[nodiscard]] std::string settings() const override { return "lines"; }
  base::expected<std::vector<std::int64_t>> time(const task& what, reference_mode,
                                                 const reference_trials& rule) override {
    const std::string& text = what.reference;
    if (!pytorch_of(what).needs.empty())
      return base::fail(base::errc::exhausted, "needs {}", to_text(pytorch_of(what).needs.front()));
    if (text.find("unready") != std::string::npos)
      return base::fail(base::errc::invalid_argument, "it is not ready");
    const auto lines = std::count(text.begin(), text.end(), '\n');
    return std::vector<std::int64_t>(static_cast<std::size_t>(rule.most), lines * 1'000'000);
  }
};

class module_checker final : public task_checker {
 public:
  reference_timer* timer() override { return &timer_; }
  base::expected<task_report> check(const task& what, std::uint64_t /*seed*/) override {
    QUERN_CHECK(validate(what));
    task_report report;
    report.findings = what.body->check_texts(what);
    return report;
  }
  base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                            plain_baselines /*plain*/) override {
    return check(what, seed);
  }

 private:
  line_timer timer_;
};

}  // namespace

const lane module_lane{
    .name = "modules",
    .summary = "Python modules that are judged by their length",
    .language = "Python",
    .file_ending = ".py",
    .fence = "python",
    .device = device_kind::core,
    .usual_device_class = "module-text",
    .body = &pytorch_format,
    .tasks_from = &pytorch_tasks,
    .element_types = {},
    .baselines = {},
    .protocols = module_protocols,
    .host_code_is_optional = false,
    .least_baseline_ns = 1,
    .usual_recheck_above_e2 = 1234,
    .corpus_tasks_ahead = 0,
    .identity = [](std::string_view source) { return base::xxh128(source); },
    .entry = [](const task&) { return std::string("class ModelNew"); },
    .optional_entry = [](const task&) { return std::string("helpers"); },
    .restrictions = [](const suite_policy&) { return std::vector<std::string>{"Be short."}; },
    .advice = [](const verdict&, const task&) { return std::string("be shorter"); },
    .new_task = new_module_task,
    .open_judge =
        [](evaluator_options) {
          return base::expected<std::unique_ptr<candidate_judge>>(std::make_unique<module_judge>());
        },
    .open_checker =
        [](const evaluator_options&) {
          return base::expected<std::unique_ptr<task_checker>>(std::make_unique<module_checker>());
        },
    .open_quick_checker = nullptr,
    .check_programs = nullptr,
    .try_compiler = nullptr,
    .device_class = [](int) { return base::expected<std::string>("module-text"); },
    .grammar = nullptr,
};

}  // namespace quern::env
