// The checks of tasks whose reference is a module.
#include "env/lanes/pytorch/module_checker.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include <fmt/ranges.h>
#include <signal.h>

#include "env/judge/compare.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/pytorch/calibration.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/module_timer.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"

namespace quern::env {
namespace {

constexpr question_limits checker_limits{120, 480};
constexpr int timed_runs = 5;

std::string shape_text(const module_tensor& tensor) {
  return fmt::format("{}[{}]", tensor.is_bool ? "bool" : name_of(tensor.type),
                     fmt::join(tensor.shape, ", "));
}

std::int64_t bytes_in(const std::vector<tensor_layout>& tensors) {
  std::int64_t bytes = 0;
  for (const tensor_layout& one : tensors)
    bytes += one.bytes;
  return bytes;
}

bool all_zero_is_right(const module_task& prepared) {
  const expected_case& first = prepared.timed.cases.front();
  for (std::size_t o = 0; o < first.want.size(); ++o) {
    const tensor_bytes zeros(first.want[o].size());
    if (compare_tensor(prepared.timed.instance.outputs[o], prepared.subject->tolerance, zeros,
                       first.want[o]))
      return false;
  }
  return true;
}

/// Kills a process that is our child after some seconds, unless this object ends before.
class time_limit {
 public:
  /// 0 seconds: never.
  time_limit(int pid, double seconds) {
    if (seconds <= 0) return;
    waiting_ = std::jthread([this, pid, seconds](const std::stop_token& over) {
      std::unique_lock lock(mutex_);
      ended_.wait_for(lock, over, std::chrono::duration<double>(seconds), [] { return false; });
      if (over.stop_requested()) return;
      passed_ = true;
      ::kill(pid, SIGKILL);
    });
  }
  [[nodiscard]] bool passed() const { return passed_; }

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::atomic<bool> passed_ = false;
  std::jthread waiting_;  // the last: it uses the others
};

/// What one task may take.
struct task_limits {
  double seconds = 0;
  std::int64_t memory_bytes = 0;
};

class module_checker final : public task_checker {
 public:
  /// `on_gpu`: of tasks for GPUs a quick check asks what can be told without values. How much fits
  /// there, and whether results repeat, is found out there.
  module_checker(python_zygote zygote, sandbox_mode mode, task_limits limits, bool on_gpu)
      : zygote_(std::move(zygote)), timer_(zygote_), mode_(mode), limits_(limits), on_gpu_(on_gpu) {
    limit_memory();
  }

  base::expected<task_report> check(const task& what, std::uint64_t seed) override {
    return look_within_limits(what, seed);
  }
  base::expected<task_report> check_quickly(const task& what, std::uint64_t seed,
                                            plain_baselines /*plain*/) override {
    task_report report;
    QUERN_CHECK(look(what, seed, false, report));
    return report;
  }
  reference_timer* timer() override { return &timer_; }

 private:
  void limit_memory() {
    if (limits_.memory_bytes > 0) zygote_.limit_memory(limits_.memory_bytes);
  }
  /// What ends the warm Python is the task's own doing, and the next one has a new one.
  base::expected<task_report> look_within_limits(const task& what, std::uint64_t seed);
  base::status look(const task& what, std::uint64_t seed, bool whole, task_report& report);
  /// Whether the task may be run at all, by tensors without values; false: a finding says why not.
  base::expected<bool> may_run(const task& what, const module_making& making, python_child& child,
                               task_report& report);
  /// What the reference gives where one input has other content and the rest is the same.
  base::expected<std::vector<std::size_t>> ignored_inputs(module_task& prepared);
  base::expected<std::int64_t> time_of(const module_task& prepared);

  python_zygote zygote_;
  module_timer timer_;
  sandbox_mode mode_;
  task_limits limits_;
  bool on_gpu_;
  core_peak peak_;
};

void find(task_report& report, bool fatal, std::string rule, std::string text) {
  report.findings.push_back({fatal, std::move(rule), std::move(text)});
}

base::expected<std::vector<std::size_t>> module_checker::ignored_inputs(module_task& prepared) {
  const task_instance& at = prepared.timed.instance;
  const auto& cases = prepared.timed.cases;
  std::vector<std::size_t> ignored;
  // Other inputs would have other random numbers.
  if (cases.size() < 2 || prepared.sheet.draws) return ignored;
  QUERN_TRY(const auto reference, fresh_reference(prepared, zygote_, -1));
  QUERN_TRY(const auto inputs, make_input_arena(at, 1));
  QUERN_TRY(const auto outputs, tensor_arena::create(memory_use::outputs, at.outputs, 1));
  QUERN_TRY(const auto plan, make_plan(at, inputs, outputs));
  auto& link = reference->link();
  auto step = link.map(inputs.request(0), inputs.fd(), checker_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), checker_limits);
  if (step) step = link.plan(plan, checker_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  for (std::size_t changed = 0; changed < at.inputs.size(); ++changed) {
    for (std::size_t i = 0; i < at.inputs.size(); ++i)
      std::ranges::copy(cases[i == changed ? 1 : 0].inputs[i], inputs.at(i, 0).begin());
    if (const auto ran = link.run(0, 1, checker_limits); !ran)
      return tl::make_unexpected(reference_error(ran.error()));
    bool differs = false;
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      differs |= compare_bits(at.outputs[o], outputs.at(o, 0), cases[0].want[o]).has_value();
    if (!differs) ignored.push_back(changed);
  }
  return ignored;
}

base::expected<std::int64_t> module_checker::time_of(const module_task& prepared) {
  const task_instance& at = prepared.timed.instance;
  QUERN_TRY(const auto core, core_choice::choose(-1));
  QUERN_TRY(const auto reference, fresh_reference(prepared, zygote_, core.core()));
  QUERN_TRY(const auto inputs, make_input_arena(at, 1));
  QUERN_TRY(const auto outputs, tensor_arena::create(memory_use::outputs, at.outputs, 1));
  QUERN_TRY(const auto plan, make_plan(at, inputs, outputs));
  for (std::size_t i = 0; i < at.inputs.size(); ++i)
    std::ranges::copy(prepared.timed.cases[0].inputs[i], inputs.at(i, 0).begin());
  auto& link = reference->link();
  auto step = link.map(inputs.request(0), inputs.fd(), checker_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), checker_limits);
  if (step) step = link.plan(plan, checker_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  std::vector<std::int64_t> times;
  for (int i = 0; i < timed_runs; ++i) {
    const auto ran = link.run(0, 1, checker_limits);
    if (!ran) return tl::make_unexpected(reference_error(ran.error()));
    times.push_back(*ran);
  }
  std::ranges::nth_element(times, times.begin() + timed_runs / 2);
  return times[timed_runs / 2];
}

/// What cannot be found out on this machine, which says nothing about the task.
void skip(task_report& report, const base::error& why) {
  find(report, true, "skipped", why.message);
}

/// Of the task, or of this machine? Its sizes and needs are known to be no obstacle.
void fail(task_report& report, const base::error& why) {
  if (why.code == base::errc::exhausted)
    skip(report, {why.code, why.message + ". --task-gib allows more"});
  else if (why.code == base::errc::timeout)
    skip(report, why);
  else
    find(report, true, "failed", why.message);
}

base::expected<task_report> module_checker::look_within_limits(const task& what,
                                                               std::uint64_t seed) {
  task_report report;
  base::status looked;
  bool late = false;
  {
    const time_limit limit(zygote_.pid(), limits_.seconds);
    looked = look(what, seed, true, report);
    late = limit.passed();
  }
  if (looked && !late) return report;
  if (!looked && looked.error().code != base::errc::unavailable)
    return tl::make_unexpected(looked.error());
  QUERN_TRY(zygote_, python_zygote::start(mode_));
  limit_memory();
  if (looked) return report;
  const double most_gib = static_cast<double>(limits_.memory_bytes) / (1 << 30);
  skip(report,
       {base::errc::timeout,
        late ? fmt::format("it took more than {:g} s: --task-s allows more", limits_.seconds)
             : fmt::format("its process was lost ({}). It may have needed more than {:g} "
                           "GiB: --task-gib allows more",
                           looked.error().message, most_gib)});
  return report;
}

base::expected<bool> module_checker::may_run(const task& what, const module_making& making,
                                             python_child& child, task_report& report) {
  base::status fits = check_needs_of(what);
  if (fits) {
    const auto text = child.describe_without_values(making, checker_limits);
    if (!text && reference_error(text.error()).code == base::errc::unavailable)
      return tl::make_unexpected(reference_error(text.error()));
    // What cannot be described without values is described with them.
    const auto sheet = text ? parse_module_sheet(*text)
                            : base::expected<module_sheet>(tl::make_unexpected(base::error{}));
    if (!sheet) return true;
    const auto at = instance_of(*sheet);
    if (!at) return true;
    if (!on_gpu_) fits = check_size_of(*sheet, *at);
    if (!fits || on_gpu_) report.facts = facts_of(*sheet, *at);
  }
  if (!fits) skip(report, fits.error());
  return fits.has_value();
}

base::status module_checker::look(const task& what, std::uint64_t seed, bool whole,
                                  task_report& report) {
  QUERN_CHECK(validate(what));
  report.findings = what.body->check_texts(what);
  QUERN_TRY(const auto file, write_module("reference.py", what.reference));
  auto child = loaded_reference(zygote_, file.path.string(), -1);
  if (!child && child.error().code == base::errc::unavailable)
    return tl::make_unexpected(child.error());
  if (!child) {
    fail(report, child.error());
    return {};
  }
  const module_making making{std::string(name_of(pytorch_of(what).precision)), seed >> 2};
  QUERN_TRY(const bool runs, may_run(what, making, *child, report));
  if (!runs || (on_gpu_ && !whole)) return {};
  const auto text = child->describe(making, checker_limits);
  if (!text && reference_error(text.error()).code == base::errc::unavailable)
    return tl::make_unexpected(reference_error(text.error()));
  const auto sheet =
      text ? parse_module_sheet(*text)
           : base::expected<module_sheet>(tl::make_unexpected(reference_error(text.error())));
  if (!sheet) {
    fail(report, sheet.error());
    return {};
  }
  const auto at = instance_of(*sheet);
  if (at) report.facts = facts_of(*sheet, *at);
  if (const auto fits = at ? check_size_of(*sheet, *at) : base::status(); !fits) {
    skip(report, fits.error());
    return {};
  }
  if (sheet->is_constant)
    find(report, !what.degenerate, "constant_output",
         "every output has one value everywhere: a kernel that computes nothing would be right");
  auto prepared = prepare_module(std::make_shared<const task>(what), zygote_, seed, peak_);
  if (!prepared && prepared.error().code == base::errc::unavailable)
    return tl::make_unexpected(prepared.error());
  if (!prepared) {
    fail(report, prepared.error());
    return {};
  }
  module_task& task = **prepared;
  report.floor_ns = task.floor_ns;
  report.worst_error = task.share_of_limit;
  if (!task.compared_with_f64 && !task.sheet.draws)
    find(report, false, "tolerance",
         "the reference does not run in f64: limits are those of its type");
  if (all_zero_is_right(task))
    find(report, false, "zeros",
         "zeros are within the task's tolerance where that is not relative to the results' scale, "
         "as "
         "in KernelBench: it is relative here");
  if (!whole) return {};
  QUERN_TRY(const auto ignored, ignored_inputs(task));
  for (const std::size_t i : ignored)
    find(report, !what.degenerate, "ignored_input",
         fmt::format("the results do not depend on {}: a kernel need not read it",
                     task.timed.instance.inputs[i].name));
  QUERN_TRY(report.baseline_ns, time_of(task));
  if (report.baseline_ns < what.lane->least_baseline_ns)
    find(report, false, "baseline",
         fmt::format("a call takes {:.1f} us, at least {:.1f} can be measured well: larger inputs",
                     static_cast<double>(report.baseline_ns) / 1e3,
                     static_cast<double>(what.lane->least_baseline_ns) / 1e3));
  return {};
}

}  // namespace

std::vector<std::string> facts_of(const module_sheet& sheet, const task_instance& at) {
  std::vector<std::string> inputs, outputs;
  for (const module_argument& one : sheet.arguments)
    inputs.push_back(one.value.empty() ? shape_text(one.tensor) : one.value);
  bool contiguous = true;
  for (const module_output& one : sheet.outputs) {
    outputs.push_back(shape_text(one.tensor));
    contiguous &= one.contiguous;
  }
  std::int64_t parameters = 0;
  std::vector<std::string> attributes;
  for (const module_weight& one : sheet.weights) {
    std::int64_t elements = 1;
    for (const std::int64_t n : one.tensor.shape)
      elements *= n;
    if (one.kind == "parameter") parameters += elements;
    if (one.kind == "attribute") attributes.push_back(one.name);
  }
  std::vector<std::string> facts{
      fmt::format("inputs {}", fmt::join(inputs, ", ")),
      fmt::format("outputs {}{}{}", fmt::join(outputs, ", "), contiguous ? "" : ", not contiguous",
                  sheet.returns_tuple ? ", a tuple" : ""),
      fmt::format("{} parameters", parameters),
      fmt::format("{} MiB of inputs and outputs",
                  (bytes_in(at.inputs) + bytes_in(at.outputs)) >> 20)};
  if (!attributes.empty())
    facts.push_back(fmt::format("tensors outside of state_dict: {}", fmt::join(attributes, ", ")));
  if (sheet.keeps_state)
    facts.emplace_back("keeps state between calls: each question begins with the first one");
  if (sheet.draws)
    facts.emplace_back("draws random numbers in forward: each call has a seed by its inputs");
  return facts;
}

base::expected<std::unique_ptr<task_checker>> open_module_checker(
    const evaluator_options& options) {
  const auto mode = options.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_CHECK(admit(probe_host(), mode));
  QUERN_TRY(auto zygote, python_zygote::start(mode));
  return std::make_unique<module_checker>(
      std::move(zygote), mode, task_limits{options.task_seconds, options.task_memory_bytes},
      options.on_gpu);
}

}  // namespace quern::env
