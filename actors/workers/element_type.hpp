// What the learner computes with, by the configuration.
#pragma once

#include "actors/config/run_config.hpp"
#include "policy/engine/arena.hpp"

namespace quern::actors {

inline at::ScalarType element_type_of(const run_config& config) {
  return config.learner.precision == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

/// In files of weights: float64, which numerical tests compute with, is float32 there.
inline policy::weight_dtype file_type_of(at::ScalarType type) {
  return type == at::kBFloat16 ? policy::weight_dtype::bf16 : policy::weight_dtype::f32;
}
inline at::ScalarType element_type_of(policy::weight_dtype type) {
  return type == policy::weight_dtype::bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace quern::actors
