// A learner without its actor: batches in, weights out, checkpoints on demand.
#pragma once

#include <optional>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/messages.hpp"
#include "base/status.hpp"
#include "policy/engine/model.hpp"
#include "policy/engine/trainer.hpp"

namespace quern::actors {

/// The formula that the configuration asks for.
policy::loss_parameters loss_parameters_of(const run_config& config);

/// A sample as the trainer takes it: prompt and completion in a row, only the completion trained,
/// without its masked head.
policy::training_sequence to_sequence(const training_sample& sample, double advantage,
                                      double temperature);

/// One thread.
class learning_worker {
 public:
  /// Loads weights and optimiser of the welcomed checkpoint.
  static base::expected<learning_worker> make(const welcome& start, const run_config& config);

  [[nodiscard]] learner_ready ready() const;
  /// One step; the new weights are published before it returns. Errors are fatal: a batch of
  /// another version, a gradient that is not finite.
  base::expected<step_done> step(const train_batch& batch);
  /// model/ and optimizer.safetensors of the current version; a problem is told in the answer.
  checkpoint_saved save(const save_checkpoint& order);

 private:
  learning_worker(policy::trainer trainer, welcome start, policy::loss_parameters loss,
                  double temperature);
  base::status add_reference_log_probs(std::vector<policy::training_sequence>& sequences);

  policy::trainer trainer_;
  /// The run's first weights, where the formula has a KL term.
  std::optional<policy::parameter_arena> reference_;
  std::optional<policy::decoder> reference_model_;
  welcome start_;
  policy::loss_parameters loss_;
  double temperature_;
};

}  // namespace quern::actors
