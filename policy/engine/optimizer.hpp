// AdamW on flat arenas (Loshchilov and Hutter, arXiv 1711.05101): decoupled weight decay on
// matrices only, bias correction, gradient clipping by global norm, learning-rate schedules.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.hpp"
#include "policy/engine/arena.hpp"

namespace quern::policy {

enum class schedule_kind { constant, linear, cosine };
std::string_view to_string(schedule_kind kind);
base::expected<schedule_kind> parse_schedule(std::string_view text);

struct optimizer_options {
  double learning_rate = 1e-4;  ///< peak
  schedule_kind schedule = schedule_kind::constant;
  std::int64_t warmup_steps = 0;  ///< step n of these (from 1) uses n / warmup_steps of the peak
  std::int64_t total_steps =
      0;             ///< where a decaying schedule reaches its floor; needed unless constant
  double floor = 0;  ///< of the schedule, as a part of the peak
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.0;   ///< of matrices; norms and biases have none
  double max_grad_norm = 1.0;  ///< 0: not clipped
};

base::status check(const optimizer_options& options);

/// Of the `step`-th step, from 1.
double learning_rate(const optimizer_options& options, std::int64_t step);

/// Moments of one arena. Same device and element type as the weights.
struct adamw {
  optimizer_options options;
  parameter_arena first, second;  ///< moments
  std::int64_t steps = 0;         ///< taken

  static base::expected<adamw> make(const parameter_arena& weights,
                                    const optimizer_options& options);
  /// The global norm of the gradients.
  static double norm(const parameter_arena& gradients);
  /// Scales the gradients to max_grad_norm where `norm` is above it, then one AdamW step. Gradients
  /// are changed. Returns the learning rate.
  double step(parameter_arena& weights, parameter_arena& gradients, double norm);
};

}  // namespace quern::policy
