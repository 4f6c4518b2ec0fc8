// A run's configuration as options of a generator: the one that samples, and in exact mode the
// learner's scorer, which must have the same.
#pragma once

#include <cstdint>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/engine/generator.hpp"

namespace quern::actors {

/// `valid_tokens`: of the tokenizer. Slots are those of the generator: the groups of two steps.
policy::generator_options generator_options_of(const run_config& config,
                                               const policy::model_config& model,
                                               std::int64_t valid_tokens, at::Device device);

}  // namespace quern::actors
