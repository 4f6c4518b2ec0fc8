// One evaluation from request to verdict, whatever the lane: what is refused unjudged, which
// verdicts are kept, what is evaluated once more.
#pragma once

#include <memory>
#include <string>

#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/judge/verdict_cache.hpp"
#include "env/measure/measure_name.hpp"

namespace quern::env {

/// How a host runs a baseline.
struct baseline_terms {
  std::string settings;     ///< for a person who reads the verdict
  std::string environment;  ///< fingerprint of verdicts over it; 32 hex digits
};

/// A judge whose evaluations pass through stages. A lane gives the evaluation of a candidate and
/// says what its hosts differ in; this class makes verdicts of it.
class staged_judge : public candidate_judge {
 public:
  verdict evaluate(const evaluation_request& request) final;
  base::expected<std::string> environment_for(const std::string& protocol) final;
  [[nodiscard]] stage_seconds stages() const final { return seconds_; }

 protected:
  /// Both outlive this object. `seconds` is what evaluations add to.
  staged_judge(const evaluator_options& options, stage_seconds& seconds)
      : options_(options), seconds_(seconds) {}

  /// An evaluation that has not run, of a request that is of this lane. `how.baseline` is never
  /// `of_task`. It fills `v`, which has task, source, protocol, device class, environment and
  /// baseline already; all arguments outlive it.
  virtual std::unique_ptr<staged_evaluation> begin(const evaluation_request& request,
                                                   const measure_name& how, verdict& v) = 0;
  /// `baseline`: one that the lane or the task has, never `of_task`. A baseline that a task file
  /// can name (eager, plain) has the environment of the host, environment(). Error: the baseline
  /// cannot be had on this host.
  virtual base::expected<baseline_terms> terms_of(baseline_choice baseline) = 0;
  /// Options of the request, beside its protocol, that can change the verdict, such as
  /// "+host_entry"; part of the key of a verdict.
  [[nodiscard]] virtual std::string key_suffix(const evaluation_request& /*request*/) const {
    return {};
  }
  /// Asked for when the process of the reference was lost: the next evaluation has another one.
  virtual void renew_reference() {}
  /// What a verdict says about the device that it used. `v` is not kept yet: where the device was
  /// to blame it becomes `infra_error`. `why`: cause of the last finding.
  virtual void look_after(verdict& v, runner::cause why) = 0;

 private:
  /// How the request is measured, with `v` told of the baseline. Error: why it is not judged here.
  base::expected<measure_name> admit(const evaluation_request& request, verdict& v);
  [[nodiscard]] verdict_key key_of(const evaluation_request& request, const verdict& head) const;

  const evaluator_options& options_;
  stage_seconds& seconds_;
  verdict_cache cache_;
};

}  // namespace quern::env
