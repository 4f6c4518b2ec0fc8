// What failures of a candidate's runner mean.
#include "env/gpu/device_candidate.hpp"

#include "env/judge/runner_end.hpp"

namespace quern::env {

finding explain_failure(gpu_runner_process& process, const runner_failure& failure,
                        const std::string& stage) {
  switch (failure.failure_kind) {
    case runner_failure::kind::timeout: {
      (void)process.end();
      finding late{verdict_kind::timeout, stage, failure.text, std::nullopt};
      late.doubtful = failure.stopped;
      return late;
    }
    case runner_failure::kind::forged:
      (void)process.end();
      return {verdict_kind::hack, std::string(name_of(hack_kind::forged_result)), failure.text,
              std::nullopt};
    case runner_failure::kind::gone:
      return ended_without_answer(process.end());
    case runner_failure::kind::host:
      return {verdict_kind::infra_error, "", failure.text, std::nullopt};
    case runner_failure::kind::fault:
    case runner_failure::kind::refused:
      break;
  }
  const bool memory = failure.last.why == runner::cause::memory;
  return {memory ? verdict_kind::oom : verdict_kind::runtime_error, "", failure.text, std::nullopt,
          failure.last.why};
}

}  // namespace quern::env
