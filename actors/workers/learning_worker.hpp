// A rank of the learner without its actor: batches in, weights out, checkpoints on demand. Every
// rank is given the same batches and orders; rank 0 publishes and answers for all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/messages.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/own_address.hpp"
#include "actors/workers/rank_group.hpp"
#include "actors/workers/weight_sender.hpp"
#include "base/status.hpp"
#include "policy/engine/exact_scorer.hpp"
#include "policy/engine/model.hpp"
#include "policy/engine/sharded_checkpoint.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/weights/model_dir.hpp"

namespace quern::actors {

/// A sample of any number of turns as the trainer takes it. Log-probs and versions stand with the
/// policy's tokens (0 elsewhere, where nothing reads them); the mask is that of the segments.
/// Errors (invalid_argument): segments that do not fit, versions that begin beyond the tokens.
base::expected<policy::training_sequence> to_sequence(const training_sample& sample,
                                                      double advantage, double temperature);

/// One thread.
class learning_worker {
 public:
  /// Meets the other ranks, then loads weights and optimiser of the welcomed checkpoint. Errors:
  /// `unavailable` when another rank failed (see group_failed), whatever reading them gives.
  static base::expected<learning_worker> make(const welcome& start, const run_config& config,
                                              std::int32_t rank = 0, const own_address& here = {});

  [[nodiscard]] std::int32_t rank() const { return rank_; }
  [[nodiscard]] learner_ready ready() const;
  /// What it is at: "backward, version 12". Any thread.
  [[nodiscard]] std::string where() const;
  /// One step; rank 0 publishes the new weights before it returns, where a link does not still send
  /// both copies, and only its answer means something. A gradient that is not finite leaves the
  /// step out on all ranks: its norm is of their sum. Errors are fatal (a batch of another
  /// version), or another rank's failure.
  base::expected<step_done> step(const train_batch& batch);
  /// Rank 0: sends weights to one more generator from now on, on a thread of its own. An order of
  /// another incarnation is left alone. Error: unavailable, when its GPU cannot be asked for.
  base::status open_link(const open_weight_link& order, const run_config& config);
  /// Rank 0: publishes the newest version where its step could not; it, once generators can have
  /// it. None: they still cannot, or the order is of another incarnation. Error: as of a step.
  base::expected<std::optional<weights_ready>> offer(const offer_weights& order);
  /// Writes model/ (rank 0) and this rank's shard of optimizer/ of the current version in the
  /// background. `done` is called on another thread, on rank 0 alone and when all ranks have
  /// written; a problem is told in the answer. Not called when the group fails meanwhile.
  void save(const save_checkpoint& order, std::function<void(checkpoint_saved)> done);

 private:
  learning_worker(rank_group group, policy::trainer trainer, welcome start,
                  policy::loss_parameters loss, double temperature, std::int32_t rank);
  /// Of the weights that the step begins with, by passes like the generator's.
  base::status add_exact_log_probs(std::vector<policy::training_sequence>& sequences);
  base::status add_reference_log_probs(std::vector<policy::training_sequence>& sequences);
  /// The GPU is this rank's from now on, for as long as `turn` lives; nothing where it is not
  /// shared.
  void take_turn(std::optional<device_share::hold>& turn);
  [[nodiscard]] std::uint64_t bytes_of_weights() const;
  base::status publish();
  base::expected<std::string> write_file() const;

  rank_group group_;
  policy::trainer trainer_;
  /// The run's first weights, where the formula has a KL term.
  std::optional<policy::parameter_arena> reference_;
  std::optional<policy::decoder> reference_model_;
  /// Where the run is exact.
  std::optional<policy::exact_scorer> scorer_;
  welcome start_;
  policy::loss_parameters loss_;
  double temperature_;
  std::int32_t rank_;
  std::optional<double> peak_;              ///< operations a second of all cards, where known
  device_share share_;                      ///< with evaluators that measure on the same GPU
  base::nanoseconds_t waited_before_ = -1;  ///< for turns, before the first step; -1: none yet
  /// To generators; null: weights are in files.
  std::unique_ptr<weight_sender> links_;
  weights_ready newest_;  ///< of the last step
  bool offered_ = false;  ///< generators can have it
  std::uint64_t largest_file_ = policy::default_shard_bytes;
  /// Last, so that it ends before what it writes.
  std::unique_ptr<policy::checkpoint_writer> writer_;
};

}  // namespace quern::actors
