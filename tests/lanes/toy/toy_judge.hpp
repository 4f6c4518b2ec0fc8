// The judge of the toy lane: a text that names its entry is right, and the faster the shorter it
// is.
#pragma once

#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"

namespace quern::env {

base::expected<std::unique_ptr<candidate_judge>> open_toy_judge(evaluator_options options);

}  // namespace quern::env
