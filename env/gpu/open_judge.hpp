// The judge of a lane on this machine.
#pragma once

#include <memory>

#include "env/judge/evaluator.hpp"
#include "env/judge/judge.hpp"

namespace quern::env {

/// Opens the evaluator of lane `cpp` or of lane `cuda` (options.gpu says on which device). Errors
/// say what is missing and what to do; invalid_argument: an option's value.
base::expected<std::unique_ptr<candidate_judge>> open_judge(lane which, evaluator_options options);

}  // namespace quern::env
