#include "env/lanes/pytorch/module_timer.hpp"

#include <memory>

#include "base/clock.hpp"
#include "env/core/cache_flush.hpp"
#include "env/core/window_time.hpp"
#include "env/judge/core_lock.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

constexpr question_limits timed_call_limits{240, 960};
constexpr double timer_lease_wait_s = 600;
constexpr int handshakes = 15;
/// Of the content and the weights, which no candidate sees here.
constexpr std::uint64_t timer_seed = 1;

/// A reference's process on one core, and the clocks that see its calls.
class timed_reference {
 public:
  explicit timed_reference(runner_link& link) : link_(link) {}

  /// Wall and CPU time of a question without a call, which every call's are less by.
  answered<void> measure_handshake();
  answered<window_time> call();

 private:
  runner_link& link_;
  cache_flush flush_;
  waiting_time own_waiting_ = waiting_time::of_this_thread();
  double handshake_ns_ = 0, handshake_cpu_ns_ = 0;
};

answered<void> timed_reference::measure_handshake() {
  std::vector<double> walls, cpus;
  for (int i = 0; i < handshakes; ++i) {
    const std::int64_t cpu = link_.cpu_ns();
    const auto ns = link_.run(0, 0, timed_call_limits);
    if (!ns) return tl::make_unexpected(ns.error());
    cpus.push_back(static_cast<double>(link_.cpu_ns() - cpu));
    walls.push_back(static_cast<double>(*ns));
  }
  handshake_ns_ = median_of(walls);
  handshake_cpu_ns_ = median_of(cpus);
  return {};
}

answered<window_time> timed_reference::call() {
  flush_();
  const std::int64_t child = link_.waited_ns(), own = own_waiting_.ns(), cpu = link_.cpu_ns();
  const auto wall = link_.run(0, 1, timed_call_limits);
  if (!wall) return tl::make_unexpected(wall.error());
  return time_of_window({static_cast<double>(*wall), static_cast<double>(link_.cpu_ns() - cpu),
                         static_cast<double>(link_.waited_ns() - child),
                         static_cast<double>(own_waiting_.ns() - own), handshake_ns_,
                         handshake_cpu_ns_});
}

double seconds_since(base::nanoseconds_t begun) {
  return static_cast<double>(base::steady_clock().now_ns() - begun) * 1e-9;
}

base::expected<std::vector<std::int64_t>> timed_calls(runner_link& link,
                                                      const reference_trials& rule) {
  using next = trial_book::next;
  timed_reference reference(link);
  trial_book book(rule);
  const base::nanoseconds_t begun = base::steady_clock().now_ns();
  bool shaken = false;
  for (;;) {
    const next then = book.after(seconds_since(begun));
    if (then == next::done) return book.times_ns();
    if (then == next::too_busy)
      return base::fail(base::errc::unavailable,
                        "other programs had the core in most calls: {} of at least {} are "
                        "undisturbed; try again when the machine is quieter",
                        book.times_ns().size(), rule.least);
    if (then == next::trial && !shaken) {
      if (const auto met = reference.measure_handshake(); !met)
        return tl::make_unexpected(reference_error(met.error()));
      shaken = true;
    }
    const auto took = reference.call();
    if (!took) return tl::make_unexpected(reference_error(took.error()));
    if (then == next::warm_up)
      book.warmed_up();
    else
      book.add(static_cast<std::int64_t>(took->ns), took->disturbed);
  }
}

}  // namespace

base::status module_timer::check_mode(reference_mode mode) const {
  switch (mode) {
    case reference_mode::eager:
      return {};
    case reference_mode::compile:
      return base::fail(base::errc::unavailable,
                        "on a core torch.compile runs a C++ compiler where the module runs, and "
                        "the sandbox of modules allows no other program");
    default:
      return base::fail(base::errc::unavailable,
                        "it needs a GPU, and this lane measures on a core");
  }
}

std::string module_timer::device_class() const {
  return torch_device_class();
}

std::string module_timer::settings() const {
  return "PyTorch on one core: " + zygote_.versions();
}

base::expected<std::vector<std::int64_t>> module_timer::time(const task& what, reference_mode mode,
                                                             const reference_trials& rule) {
  QUERN_CHECK(check_mode(mode));
  QUERN_TRY(auto described,
            describe_module(std::make_shared<const env::task>(what), zygote_, timer_seed));
  module_task& task = *described.task;
  const task_instance& at = task.timed.instance;
  QUERN_TRY(const auto inputs, make_input_arena(at, 1));
  QUERN_TRY(const auto outputs, tensor_arena::create(memory_use::outputs, at.outputs, 1));
  QUERN_TRY(const auto plan, make_plan(at, inputs, outputs));
  {
    // Its process ends before the clock runs.
    const auto content = content_of(task, std::move(described.process), timer_seed);
    QUERN_CHECK(content->fill(0, inputs));
  }
  QUERN_TRY(const auto core, core_choice::choose(-1));
  QUERN_TRY(const auto reference, fresh_reference(task, zygote_, core.core()));
  auto& link = reference->link();
  auto step = link.map(inputs.request(0), inputs.fd(), timed_call_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), timed_call_limits);
  if (step) step = link.plan(plan, timed_call_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  QUERN_TRY(const auto lease, core_lease::take(core.core(), timer_lease_wait_s));
  come_first(link.pid());
  return timed_calls(link, rule);
}

}  // namespace quern::env
