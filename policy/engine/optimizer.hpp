// AdamW on flat arenas (Loshchilov and Hutter, arXiv 1711.05101): decoupled weight decay on
// matrices only, bias correction, gradient clipping by global norm, learning-rate schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/weights/shard_map.hpp"

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

/// The optimiser of one shard of an arena (all of it with one rank): master weights and moments,
/// flat, laid out by `shard`, in the arena's element type, or float32 where that is bfloat16.
struct adamw {
  optimizer_options options;
  catalogue layout;
  shard_map shard;
  /// [shard.elements]; with one rank and no rounding the arena's own tensor, else a copy.
  at::Tensor master;
  /// Of bfloat16 arenas: the master weights rounded, written by each step; with one rank the
  /// arena's own tensor. Undefined otherwise.
  at::Tensor rounded;
  at::Tensor first, second;  ///< moments, [shard.elements]
  std::int64_t steps = 0;    ///< taken

  /// For shard `rank` of weights.layout.place.ranks.
  static base::expected<adamw> make(const parameter_arena& weights,
                                    const optimizer_options& options, std::int32_t rank = 0);
  /// Sum of squares in double, a scalar on the device: the square of a global norm is the sum of
  /// these over shards.
  static at::Tensor squares(const at::Tensor& gradients);
  /// Scales the shard's gradients to max_grad_norm where `norm` (double, a scalar on the device) is
  /// above it, then one AdamW step; nothing changes where it is not finite. The host waits for
  /// neither: whoever reads the norm later calls `take_back` in that case. Gradients are changed.
  /// Bucket by bucket, in the arena's order; `updated`, where it is given, is called with each
  /// bucket once its part of `result` is computed, or queued: it can go to the other ranks while
  /// the next one is. Returns the learning rate.
  double step(at::Tensor& gradients, const at::Tensor& norm,
              const std::function<void(std::size_t bucket)>& updated = {});
  /// The last step did nothing.
  void take_back() { --steps; }
  /// Reads the master weights from an arena that was changed from outside: with them, where they
  /// are rounded, goes what rounding had left out.
  void load_master(const parameter_arena& weights);
  /// After the master weights were changed from outside.
  void round_master();
  /// What the arenas of all ranks are to get, this shard's part.
  const at::Tensor& result() const { return rounded.defined() ? rounded : master; }

 private:
  /// What all parts of one step have in common.
  struct scales {
    double rate = 0;
    bool exact = false;                ///< float64
    std::optional<at::Tensor> divide;  ///< of gradients, float32; none: they are divided already
    at::Tensor skip;                   ///< 1: nothing is to change
    at::Tensor count;                  ///< of steps
  };
  void update(std::size_t bucket, bool matrices, const at::Tensor& gradients, const scales& by);
};

}  // namespace quern::policy
