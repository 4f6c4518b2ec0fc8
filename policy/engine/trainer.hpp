// One optimiser step: packed micro-batches, chunked log-probs and loss, layer-by-layer backward,
// clipping, AdamW. Fine-tuning and policy gradients are the same path; they differ in
// loss_parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/json.hpp"
#include "base/status.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/optimizer.hpp"
#include "policy/engine/parallel.hpp"
#include "policy/engine/sequence.hpp"
#include "policy/loss/preset.hpp"

namespace quern::policy {

struct trainer_options {
  loss_parameters loss;
  optimizer_options optimizer;
  packing pack;
  std::int64_t loss_chunk = 1024;  ///< rows of logits that exist at once
  /// Sequences that cannot have a gradient (advantage or weight 0, no KL term) are not computed;
  /// they count in the denominators all the same, so weights come out equal.
  bool skip_idle = true;
  /// Threads, each with a decoder and gradients of its own; LibTorch must run with one thread then.
  std::int32_t workers = 1;
  std::int64_t valid_tokens =
      0;  ///< ids from here on are left out of the softmax, as in the generator; 0: none
  recompute_mode recompute = recompute_mode::none;
  /// Token losses as tensors where the weights are (loss_rows.hpp), so that the host does not wait
  /// for log-probs, or one by one on the host; they differ by rounding in float64. By default
  /// tensors on a GPU, and the host's own arithmetic on the host.
  std::optional<bool> losses_as_tensors = std::nullopt;
};

/// Means are over the trained tokens of the sequences that were computed.
struct step_metrics {
  std::int64_t version = 0;  ///< after the step
  double loss = 0;           ///< what was minimised
  double grad_norm = 0;      ///< before clipping
  double learning_rate = 0;
  /// The gradient, or a log-prob that it rests on (`dropped_fraction`), was not finite: weights,
  /// moments and version stay as they were.
  bool skipped = false;
  double tokens = 0, sequences = 0;  ///< computed
  double idle_sequences = 0;         ///< not computed, see trainer_options::skip_idle
  double mean_log_prob = 0, entropy = 0;
  double ratio = 1, ratio_max = 1;
  double clip_fraction = 0, dropped_fraction = 0;
  double kl = 0;                               ///< to the reference (k3)
  double mismatch_mean = 0, mismatch_max = 0;  ///< |log-prob here - recorded|, over tokens of the
                                               ///< current version (all, if versions are unknown)
  double mismatch_tokens = 0;                  ///< over how many tokens
  double behaviour_kl = 0;  ///< k3 estimate of KL(behaviour || policy) over all tokens: staleness
                            ///< and mismatch together
  double forward_rows = 0;  ///< rows computed, shared prompts counted once
};

base::json to_json(const step_metrics& metrics);

struct pass_totals;  // of one backward pass

/// One thread; owns gradients and optimiser moments, trains the arena in place. Of a bfloat16 arena
/// gradients, master weights and moments are float32, and the arena holds the rounded masters.
///
/// With `group` it is one rank of several (ZeRO-1): every rank holds all weights and computes a
/// share of each batch; gradients are summed over the ranks bucket by bucket while the backward
/// pass goes on, each rank's optimiser steps its own shard of master weights and moments, and the
/// weights are gathered. All ranks call the same functions in the same order; results are equal on
/// all, and equal to those of one rank up to the order of additions. An error on one rank ends the
/// group.
class trainer {
 public:
  /// `arena` must be laid out for context.dp ranks and hold the same weights on all; `group` must
  /// outlive the trainer and be of context.dp ranks (null for one).
  static base::expected<trainer> make(parameter_arena arena, const trainer_options& options,
                                      const parallel_context& context = {},
                                      communicator* group = nullptr);
  trainer(trainer&&) noexcept;
  trainer& operator=(trainer&&) noexcept;
  ~trainer();

  /// One step on the batch. `totals` counts the batch before filtering, of all ranks; without it
  /// the batch is taken as unfiltered and as all there is. A batch without trained tokens is
  /// invalid_argument; a rank's share may be empty.
  base::expected<step_metrics> step(std::span<const training_sequence> batch);
  base::expected<step_metrics> step(std::span<const training_sequence> batch,
                                    const batch_totals& totals);
  /// Loss and gradients only (gradient arena, unclipped, overwritten); weights stay. For tests and
  /// for evaluation.
  base::expected<step_metrics> gradients(std::span<const training_sequence> batch,
                                         const batch_totals& totals);
  /// Log-probs under the weights as they are now (reference, proximal, mismatch).
  base::expected<std::vector<std::vector<float>>> log_probs(
      std::span<const training_sequence> batch);

  const parameter_arena& weights() const;
  /// Of this rank's share of the batch, where there are several.
  const parameter_arena& gradient_arena() const;
  /// Puts the sum over ranks into the gradient arena of each. For inspection.
  base::status gather_gradients();
  /// Puts the master weights of all shards into the arena: after they were loaded.
  base::status gather_weights();
  communicator* group();
  adamw& optimizer();
  trainer_options& options();
  /// Number of steps taken: the policy's version.
  std::int64_t version() const;
  void set_version(std::int64_t version);

 private:
  struct state;
  explicit trainer(std::unique_ptr<state> parts);
  step_metrics read(const pass_totals& pass) const;
  std::unique_ptr<state> state_;
};

}  // namespace quern::policy
