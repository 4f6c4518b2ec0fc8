// What judges candidates, whatever the lane: (task, source) -> verdict.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/exact_request.hpp"
#include "env/task/task.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// Why a device takes no work.
struct device_trouble {
  std::string reason;             ///< one sentence for a person
  base::nanoseconds_t since = 0;  ///< on the steady clock
};

/// Judges candidates of one lane, one at a time, on one device. Thread-compatible: one thread at a
/// time calls evaluate(); compile_ahead() may be called from any thread.
class candidate_judge {
 public:
  virtual ~candidate_judge() = default;

  /// Never fails: what goes wrong here is a verdict too (`infra_error`, `invalid_reference`).
  virtual verdict evaluate(const evaluation_request& request) = 0;

  /// What a protocol of others says of a candidate, reproduced as it is, defects included: an
  /// object that the protocol defines. It is no verdict, enters none and is kept nowhere. On the
  /// thread of evaluate(). Errors: not_found: the lane has no such protocol; invalid_argument: the
  /// terms; others are of this host.
  virtual base::expected<base::json> evaluate_exactly(const exact_request& /*request*/) {
    return base::fail(base::errc::not_found,
                      "the lane of this task reproduces no protocol of others: leave `exact` out");
  }

  /// Starts what the first evaluation would otherwise wait for. The first evaluate() reports an
  /// error. On the thread that calls evaluate(), or before it does.
  virtual void warm_up() = 0;

  /// Screens and compiles into the cache, so that evaluate() finds the artefact. Safe from any
  /// thread and beside evaluate().
  virtual void compile_ahead(const evaluation_request& request) = 0;

  /// Prepares the request's task as its first evaluation would, for whoever has nothing to evaluate
  /// yet. It may wait for the device as long as an evaluation does. False: nothing is gained by
  /// preparing more now: there is no room, it failed, or the lane prepares nothing. evaluate()
  /// reports what went wrong. On the thread of evaluate().
  virtual bool prepare_ahead(const evaluation_request& /*request*/) { return false; }

  [[nodiscard]] virtual const env::lane& lane() const = 0;
  /// As lane::device_class() tells it; times of different classes are never compared.
  [[nodiscard]] virtual const std::string& device_class() const = 0;
  /// Fingerprint of all that can change a verdict or a time; 32 hex digits.
  [[nodiscard]] virtual const std::string& environment() const = 0;
  /// Fingerprint of verdicts measured under `protocol`, such as "paired/1@compile": it has the
  /// baseline's compiler in it where that is another one. Error: this host does not have it.
  virtual base::expected<std::string> environment_for(const std::string& /*protocol*/) {
    return environment();
  }
  [[nodiscard]] virtual stage_seconds stages() const = 0;
  /// How long evaluations have waited for their turns on the device in all, s; 0 where it is this
  /// judge's alone.
  [[nodiscard]] virtual double waited_for_device_s() const { return 0; }
  /// Candidates that it is worth having at a time: the next ones are built, and where they can be
  /// started, while one is measured.
  [[nodiscard]] virtual std::int64_t candidates_at_a_time() const { return 3; }

  /// Empty: the device takes work. Otherwise every evaluation would be an `infra_error`, and the
  /// next candidates belong on another device. On the thread of evaluate().
  [[nodiscard]] virtual std::optional<device_trouble> trouble() const { return std::nullopt; }
  /// Tests a device in trouble if the time for it has come; trouble() tells how it went. On the
  /// thread of evaluate(), every second or so.
  virtual void recover() {}
};

}  // namespace quern::env
