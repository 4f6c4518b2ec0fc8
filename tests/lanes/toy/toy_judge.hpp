// The judge of the toy lanes: a text that names its entry is right, and the faster the shorter it
// is.
#pragma once

#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/task/lane.hpp"

namespace quern::env {

/// `of`: a toy lane. Its device class is that of options.gpu.
base::expected<std::unique_ptr<candidate_judge>> open_toy_judge(const lane& of,
                                                                const evaluator_options& options);

}  // namespace quern::env
