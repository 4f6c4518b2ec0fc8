// What the trainer learns from, and how sequences become packed rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "policy/engine/model.hpp"

namespace quern::policy {

/// One sequence of tokens. Vectors that go by token are indexed like `tokens`; entries of tokens
/// that are not trained are ignored.
struct training_sequence {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t>
      loss_mask;           ///< 1: this token is predicted and trained; the first token cannot be
  double advantage = 1;    ///< of every trained token
  double weight = 1;       ///< multiplies the loss, not the denominator
  double temperature = 1;  ///< at which it was sampled: divides the logits
  std::vector<float> behaviour_log_probs;  ///< as recorded at sampling; may be empty for sft
  std::vector<float>
      proximal_log_probs;  ///< empty: the policy of this step (exact for the first step on a batch)
  std::vector<float> reference_log_probs;  ///< empty: no KL term
  /// Log-probs under the weights of this step from the generator's own passes (exact_scorer.hpp).
  /// They stand for those of the training pass in loss and figures; gradients flow through that
  /// pass as before. Empty: the training pass's.
  std::vector<float> exact_log_probs;
  std::vector<std::int64_t> versions;  ///< that sampled each token; empty: unknown
};

/// Counts of the whole batch before filtering, over all ranks: what denominators are made of.
struct batch_totals {
  double tokens = 0;     ///< trained tokens
  double sequences = 0;  ///< sequences with at least one trained token
};

struct packing {
  std::int64_t max_rows = 4096;  ///< rows of one micro-batch; a longer sequence gets one of its own
  bool share_prompts = true;  ///< compute equal prompts (all tokens before the first trained one)
                              ///< once per micro-batch
  std::int64_t pad_segments = 1;  ///< every segment is padded to a multiple of this many rows
};

/// A place where a token is predicted: row of the micro-batch, and which token of which sequence.
struct prediction {
  std::int64_t row = 0;
  std::int32_t sequence = 0;
  std::int32_t token = 0;  ///< index into the sequence's tokens, at least 1
};

struct micro_batch {
  packed_rows rows;
  std::vector<prediction> predictions;  ///< of trained tokens, by sequence and token
};

/// Refuses: vectors of unequal length, a trained first token, tokens outside the vocabulary,
/// sequences longer than max_positions, log-probs missing.
base::status check(const model_config& config, std::span<const training_sequence> batch);
batch_totals count(std::span<const training_sequence> batch);
/// Packs in order (next fit). The last token of a sequence predicts nothing and gets no row.
base::expected<std::vector<micro_batch>> pack(const model_config& config,
                                              std::span<const training_sequence> batch,
                                              const packing& how, at::Device device);

}  // namespace quern::policy
