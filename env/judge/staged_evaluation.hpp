// What the evaluations of all lanes have in common: a verdict that is filled stage by stage and
// stands at the first finding, and what stages of any lane tell it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "env/build/compile_result.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/verdict_cache.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/measure_name.hpp"
#include "env/measure/stage_clock.hpp"
#include "env/screen/screen_finding.hpp"
#include "env/verdict/finding.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What ended an evaluation early and need not be its candidate's doing: it may be gone when the
/// evaluation is made again.
enum class interruption {
  none,
  reference_lost,   ///< the baseline's process ended
  candidate_ended,  ///< the candidate's was ended or stopped; by itself or by somebody else
};

/// Which evaluations are made once more: one for each interruption. A candidate that ends itself
/// does so again and has its verdict then; one whose process was killed once has that of the
/// second evaluation. Thread-compatible.
class repeated_evaluations {
 public:
  /// Whether an evaluation that ended so is made once more.
  bool allow(interruption why);

 private:
  std::array<bool, 3> used_{};
};

/// Whether the request is for a time, and not for checks alone.
bool is_measured(const evaluation_request& request, const measure_name& how);

/// One evaluation. Thread-compatible.
class staged_evaluation {
 public:
  virtual ~staged_evaluation() = default;
  staged_evaluation(const staged_evaluation&) = delete;
  staged_evaluation& operator=(const staged_evaluation&) = delete;

  /// Passes through the stages of its lane until one finds something: screen, build, checks, and
  /// the clock if the request is_measured(). Nothing of the candidate runs when it returns.
  virtual void run() = 0;
  /// Why run() ended early, where the cause may be outside of the candidate.
  [[nodiscard]] virtual interruption interrupted() const {
    return doubtful_ ? interruption::candidate_ended : interruption::none;
  }
  /// It got as far as what a quarantine is about: a compiler, a reference, a process, a device. The
  /// lane sets used_device_ before it asks for the first of them.
  [[nodiscard]] bool used_device() const { return used_device_; }

  /// Takes the verdict that is kept for this request, if it stands: neither a recheck is asked for
  /// nor is it drawn to be measured again with probability `p`. True: it was taken, and there is
  /// nothing to run. Otherwise takes from it what the new measurement is pooled with and has to
  /// confirm.
  bool recall(verdict_cache& cache, const verdict_key& key, double p);
  /// Keeps the verdict, and what was measured for it.
  void keep(verdict_cache& cache, const verdict_key& key);
  /// Of the finding that was taken last.
  [[nodiscard]] runner::cause cause() const { return cause_; }

 protected:
  /// All outlive this object.
  staged_evaluation(const evaluation_request& request, const measure_name& how, verdict& v)
      : request_(request), measure_(how), verdict_(v) {}

  /// What the verdict says of a finding: the lane may know that it is no fault of the candidate.
  [[nodiscard]] virtual finding qualified(const finding& f) const { return f; }
  /// Takes a finding, qualified(), for the verdict; whether it is ok.
  bool settle(const finding& found);
  /// Takes back a finding and the checks so far: they are made once more, otherwise.
  void begin_checks_again();
  /// Something that is not the candidate's: the task's (invalid_argument) or this host's. False.
  bool fail_host(const base::error& e);
  /// Takes what the static screen said; whether nothing is refused.
  bool settle_screen(const std::optional<screen_finding>& broken);
  /// Notes what a compiler was asked, how long it took and what it said.
  void note_compiler(const compile_result& built);

  const evaluation_request& request_;
  const measure_name& measure_;
  verdict& verdict_;
  /// Window pairs of earlier measurements, to be pooled with; the first large claim, to be
  /// confirmed.
  std::vector<process_pairs> runs_;
  std::optional<std::int64_t> claim_e2_;
  bool used_device_ = false;

 private:
  runner::cause cause_ = runner::cause::unknown;
  /// The candidate's process may have been ended or stopped by somebody else.
  bool doubtful_ = false;
};

}  // namespace quern::env
