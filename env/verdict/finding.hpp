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

  [[nodiscard]] bool ok() const { return kind == verdict_kind::ok; }
};

}  // namespace quern::env
