// A verdict in the making.
#pragma once

#include <optional>
#include <string>

#include "env/runner/protocol.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What a check found; `ok` until something is.
struct finding {
  verdict_kind kind = verdict_kind::ok;
  std::string reason;
  std::string detail;
  std::optional<first_difference> first_diff;
  /// What a runner on a device told of a failure, where one did.
  runner::cause cause = runner::cause::unknown;
  /// The process may have been killed or stopped by somebody else on this host
  /// (env/sandbox/outside_hand.hpp): to be judged once more before it counts.
  bool doubtful = false;

  [[nodiscard]] bool ok() const { return kind == verdict_kind::ok; }
  /// Nothing that was compared was wrong: it is `ok`, or nothing but its time is unknown.
  [[nodiscard]] bool right() const { return ok() || kind == verdict_kind::noisy; }
};

/// The same of a plain baseline: the task's fault (invalid_reference), or this host's.
finding of_plain_baseline(const finding& f);

}  // namespace quern::env
