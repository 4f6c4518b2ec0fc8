// What the learner computes with, by the configuration.
#pragma once

#include "actors/config/run_config.hpp"
#include "policy/engine/arena.hpp"

namespace quern::actors {

inline at::ScalarType element_type_of(const run_config& config) {
  return config.learner.precision == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

}  // namespace quern::actors
