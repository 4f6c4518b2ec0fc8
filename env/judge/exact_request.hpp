// One candidate for a protocol of others that is reproduced as it is.
#pragma once

#include <memory>
#include <string>

#include "base/json.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// The question of candidate_judge::evaluate_exactly().
struct exact_request {
  std::shared_ptr<const task> subject;
  std::string source;
  /// `protocol`, such as "kernelbench_exact/1", and what else that protocol takes. Untrusted.
  base::json terms;
};

}  // namespace quern::env
