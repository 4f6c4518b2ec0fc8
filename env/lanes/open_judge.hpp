// The judge and the oracle of a lane on this machine.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/task/check.hpp"

namespace quern::env {

/// Opens the evaluator of lane `cpp` or of lane `cuda` (options.gpu says on which device). Errors
/// say what is missing and what to do; invalid_argument: an option's value.
base::expected<std::unique_ptr<candidate_judge>> open_judge(lane which, evaluator_options options);

/// The oracle of lane `cpp` (env/lanes/cpp/cpp_oracle.hpp) or of lane `cuda`
/// (env/lanes/cuda/cuda_oracle.hpp).
base::expected<std::unique_ptr<reference_oracle>> open_oracle(lane which,
                                                              const evaluator_options& options);

}  // namespace quern::env
