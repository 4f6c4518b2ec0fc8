// From hidden states to log-probs and back, in chunks of rows, so that tokens x vocabulary never
// exists at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "policy/engine/sequence.hpp"

namespace quern::policy {

/// What one chunk of predictions gives, on the host in double, and what it wants back.
struct head_chunk {
  std::size_t first = 0;  ///< index of its first prediction
  std::span<const double> log_probs;
  std::span<const double> entropies;
  std::span<double> gradients;  ///< to be filled with d loss / d log_prob; empty without backward
};

/// The same where it is computed, [n] each, of the wide type (products.hpp); what is wanted back is
/// a tensor like log_probs.
struct head_rows {
  std::int64_t first = 0;
  at::Tensor log_probs, entropies;
};

/// Not thread-safe (buffers).
class output_head {
 public:
  output_head(std::int64_t chunk, std::int64_t valid_tokens)
      : chunk_(chunk), valid_(valid_tokens) {}

  /// Visits all predictions of a micro-batch in order. Logits are divided by each sequence's
  /// temperature. With `d_hidden` (rows of hidden) and `d_head`, both of the wide type
  /// (products.hpp) and added to, the visitor's gradients are carried back.
  void run(const at::Tensor& hidden, const at::Tensor& head, const micro_batch& batch,
           std::span<const training_sequence> sequences,
           const std::function<void(const head_chunk&)>& visit, at::Tensor* d_hidden,
           at::Tensor* d_head);
  /// The same without a wait of the host: the visitor queues what makes the gradients.
  void run_rows(const at::Tensor& hidden, const at::Tensor& head, const micro_batch& batch,
                std::span<const training_sequence> sequences,
                const std::function<at::Tensor(const head_rows&)>& visit, at::Tensor* d_hidden,
                at::Tensor* d_head);

 private:
  std::int64_t chunk_, valid_;
  at::Tensor inputs_, logits_, d_inputs_;
};

}  // namespace quern::policy
