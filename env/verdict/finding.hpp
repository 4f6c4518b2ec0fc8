// A verdict in the making.
#pragma once

#include <optional>
#include <string>

#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What a check found; `ok` until something is.
struct finding {
  verdict_kind kind = verdict_kind::ok;
  std::string reason;
  std::string detail;
  std::optional<first_difference> first_diff;

  [[nodiscard]] bool ok() const { return kind == verdict_kind::ok; }
};

}  // namespace quern::env
