// Calls of a candidate and of its reference on the same contents, and whether they agree.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "env/core/idle_charge.hpp"
#include "env/gpu/device_context.hpp"
#include "env/lanes/pytorch/gpu/call_copies.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"
#include "env/lanes/pytorch/gpu/device_module_task.hpp"
#include "env/lanes/pytorch/gpu/module_limits.hpp"
#include "env/runner/standing_process.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// A window of calls of one side, by the evaluator's clock.
struct device_window {
  /// Before its first question: a launch that brings the process's context to the device.
  double wake_ns = 0;
  /// From the copies before the first question to the last answer, less pauses (call_copies).
  double answer_ns = 0;
  /// From there until its process stood still, a copy of its outputs was made, in the evaluator's
  /// context, and some bytes had gone to the device and back. Work that is put off until behind the
  /// answer makes it longer, or comes too late to be copied. 0: not copied.
  double tail_ns = 0;
  base::nanoseconds_t begun_ns = 0;  ///< when answer_ns begins, by a steady clock
  call_times each;
};

/// One candidate on a device beside its reference. `candidate` may be exchanged between calls.
/// Thread-compatible.
class device_module_calls {
 public:
  /// All outlive it, and the candidate has the memory of this task.
  device_module_calls(device_module_task& of, device_context& context, module_memory& memory,
                      device_module& candidate, std::uint64_t secret);

  /// Whether twice the second-level cache is read before each window, so that neither side finds
  /// there what the other left. It is, unless this says otherwise.
  void flush_before_windows(bool flushes) { flushes_ = flushes; }
  /// The reference is called by another process of its task (module_baseline.hpp), which has its
  /// memory. Its results are within the limits of a call themselves, so a candidate's may lie twice
  /// as far from them.
  void measure_over(device_module& baseline) {
    reference_ = &baseline;
    limits_wider_ = 2;
  }

  /// Has compare() begin again also where it found limits while the candidate's process lives: what
  /// is timed would have the seconds of that in it.
  void begin_again_for_limits() { begins_again_for_limits_ = true; }
  /// For compare().
  void end_candidate_by(candidate_end end) { end_candidate_ = std::move(end); }
  /// While it lives, the candidate's process stands still but in its windows and deliveries, from
  /// the launch that wakes it to its last answer: what it did beside would make windows of the
  /// reference slower, or be work that no clock sees. Meanwhile nobody else asks the candidate.
  class only_when_asked {
   public:
    explicit only_when_asked(device_module_calls& of) : of_(of) { of_.stands_still_ = true; }
    ~only_when_asked() {
      of_.stands_still_ = false;
      of_.stands_.go_on();
    }
    only_when_asked(const only_when_asked&) = delete;
    only_when_asked& operator=(const only_when_asked&) = delete;

   private:
    device_module_calls& of_;
  };

  /// Who looks at the core before windows and between calls: not null.
  void look_by(core_look look) { look_ = std::move(look); }
  [[nodiscard]] base::nanoseconds_t look() const { return look_(); }

  /// Numbers of the processes of the reference and of the candidate.
  [[nodiscard]] std::array<int, 2> processes() const;
  /// Contents that no call had before, of the nominal distribution, for `calls` calls, which are as
  /// many each time. They are drawn in a row with those of windows to come, where these fit.
  std::vector<module_case> fresh(std::size_t calls);
  /// The same, each drawn alone: some of them may be exchanged.
  std::vector<module_case> fresh_alone(std::size_t calls);
  /// Makes them, or finds them made. A finding is the task's or the host's.
  finding make(std::span<const module_case> window);
  /// Calls of the reference on the contents that make() was asked for last, from the first on.
  /// `copies`: its outputs, too, as those of a candidate are, so that the tail of calls in which
  /// nothing is put off is known.
  finding reference(std::size_t calls, bool copies, device_window& took);
  /// What so many calls of the reference cost in which nothing is computed. Its outputs are gone.
  /// `took`: gets the times, without a tail.
  finding delivery(std::size_t calls, device_window& took);
  /// The same of the candidate, whose time says nothing: so that either side as often as the other
  /// was the last that the processor's caches served. `took` as above, with a tail.
  finding candidate_delivery(std::size_t calls, device_window& took);
  /// Calls of the candidate. Inputs that are not late are put there before the window, late bytes
  /// just before each call's question (call_copies). `limit_s`: of the wall of all.
  finding candidate(std::size_t calls, double limit_s, device_window& took);
  /// Whether what the candidate's outputs were right behind its last answer is what the reference
  /// gave. Limits are found as far as they are needed (widen_limits()). `unsupported`: they are
  /// right, but it is to begin again (begins_again()), or the reference cannot say. `where`: for
  /// people. `step`: the time in which limits are found becomes a step of its own.
  finding compare(std::span<const module_case> window, const std::string& where,
                  step_clock* step = nullptr);
  /// Whether they were right by limits that were found behind them: the candidate's process has
  /// ended for that, or they are timed (begin_again_for_limits()).
  [[nodiscard]] bool begins_again() const { return begins_again_; }
  /// Whether nothing beside the candidate's outputs was written.
  finding look_at_guards();
  /// What a failed question to the candidate means. `stage`: names timeouts.
  finding explain(const runner_failure& why, const std::string& stage);

 private:
  finding failed_reference(const runner_failure& why);
  /// compare() by the limits that are known. Errors and units as there.
  finding compare_once(std::span<const module_case> window, const std::string& where);
  answered<void> wakes(device_module& whom, device_window& took);
  answered<void> asks(device_module& whom, std::size_t calls, double limit_s, const side_memory& of,
                      device_window& took);
  answered<void> delivers(device_module& from, std::size_t calls, const call_preparation& prepare,
                          device_window& took);
  finding copy_outputs(device_module& whom, std::size_t calls, std::uint64_t outputs,
                       device_window& took);
  [[nodiscard]] side_memory of_reference() const {
    return {memory_.reference_inputs(), memory_.reference_outputs()};
  }
  void poison(std::uint64_t outputs, std::size_t calls);
  [[nodiscard]] std::uint64_t input_bytes(std::size_t calls) const {
    return calls * task_.places.inputs.stride();
  }
  [[nodiscard]] std::uint64_t output_bytes(std::size_t calls) const {
    return calls * task_.places.outputs.stride();
  }
  finding get_ready();
  finding wait_for_device();
  finding stop_candidate();
  finding look_at_samples();

  device_module_task& task_;
  device_context& context_;
  module_memory& memory_;
  device_module& candidate_;
  base::random_stream random_;
  /// The row that windows are taken from.
  module_case row_;
  /// Contents of it that were taken.
  std::size_t taken_ = 0;
  /// Seed of the row that is in the staging.
  std::optional<std::uint64_t> made_;
  call_copies copies_;
  const device_allocation& flush_;
  bool flushes_ = true, begins_again_ = false;
  candidate_end end_candidate_;  ///< null: nobody does
  bool begins_again_for_limits_ = false;
  std::size_t wrong_at_ = 0;  ///< which call of a window compare_once() called wrong
  core_look look_ = core_pace_ns;
  bool stands_still_ = false;
  standing_process stands_;  ///< the candidate's
  device_module* reference_;
  double limits_wider_ = 1;
};

}  // namespace quern::env
