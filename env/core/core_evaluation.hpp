// One evaluation of a lane on a core: from a candidate that was found right to its time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "env/core/core_care.hpp"
#include "env/core/core_peak.hpp"
#include "env/core/timing.hpp"
#include "env/judge/core_lock.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/measure/null_distribution.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// What every evaluator on a core works with. The state of a lane's evaluator derives from it.
struct core_state {
  core_choice core;
  std::unique_ptr<spawner> children;
  std::string device_class;
  std::string environment;
  null_distribution null;
  core_peak peak;
  stage_seconds seconds;
  core_care care;
  std::uint64_t self_tests = 0;
};

/// What a lane gives for one measurement. Its processes are loaded, and end with their owner.
struct measured_sides {
  core_process* candidate = nullptr;
  candidate_checker* checker = nullptr;  ///< of the candidate
  baseline_side baseline;
  timed_content_maker* maker = nullptr;  ///< as timing_request::maker
};

/// Fills a verdict stage by stage; a lane adds the stages up to the clock and opens the processes
/// that are timed. Thread-compatible.
class core_evaluation : public staged_evaluation {
 public:
  [[nodiscard]] interruption interrupted() const override;

 protected:
  /// All outlive this object.
  core_evaluation(core_state& with, const evaluator_options& options,
                  const evaluation_request& request, const measure_name& how, verdict& v)
      : staged_evaluation(request, how, v), core_(with), common_(options) {}

  /// As fail_host, of something that was asked of the reference.
  bool fail_reference(const base::error& e);

  /// Measures `subject` in as many rounds as the judgement asks for, and settles the verdict.
  void time(core_task& subject);

  /// Opens a pair of fresh processes, gives them to time_sides() and looks at the candidate once
  /// more: what was right before the clock ran must be right after it. False: the verdict stands.
  virtual bool measure_once(std::uint64_t round, process_pairs& into) = 0;

  /// Times both sides on the leased core; pairs to `into`. `round` varies the order of windows and
  /// the content of calls.
  bool time_sides(core_task& subject, const output_limits& limit, const measured_sides& sides,
                  std::uint64_t round, process_pairs& into);

  /// Nanoseconds of one call of the candidate when it was checked: the first idea of a window.
  double call_ns_ = 0;

 private:
  [[nodiscard]] estimate_limits measuring_limits() const;

  core_state& core_;
  const evaluator_options& common_;
  bool lost_reference_ = false;
};

}  // namespace quern::env
