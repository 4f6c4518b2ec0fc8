// The losses of token_loss.hpp for many predictions at once, as tensors on the device: a step never
// brings log-probs to the host. visit_token (token_sums.hpp) is the same arithmetic one token at a
// time, and what this is held against.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "policy/engine/sequence.hpp"
#include "policy/engine/token_sums.hpp"
#include "policy/loss/preset.hpp"

namespace quern::policy {

/// Values to a device by way of pinned memory: a copy from any other waits for all that is queued.
at::Tensor upload(std::span<const double> values, at::Device device);
at::Tensor upload(std::span<const std::int64_t> values, at::Device device);

/// What token_sums adds up, on a device.
struct row_totals {
  at::Tensor sums;    ///< [token_sums::added], float64; rows and sequences are never among them
  at::Tensor maxima;  ///< [token_sums::compared], float64

  static row_totals zeros(at::Device device);
  /// Of another thread's tokens.
  void add(const row_totals& other);
};

/// Of one micro-batch: what its losses are made of, uploaded once. All float64.
class loss_rows {
 public:
  /// `version`: of the weights, for the mismatch. Denominators are of `totals`.
  loss_rows(const loss_parameters& parameters, const micro_batch& batch,
            std::span<const training_sequence> sequences, const batch_totals& totals,
            std::int64_t version, at::Device device);

  /// Of the predictions from `first` on, whose log-probs and entropies these are, [n], of any
  /// floating type on the device: d loss / d log_prob, [n], weights included, of the type of
  /// log_prob. Adds to `total`. The host waits for nothing.
  at::Tensor gradients(std::int64_t first, const at::Tensor& log_prob, const at::Tensor& entropy,
                       row_totals& total) const;

 private:
  loss_parameters parameters_;
  at::Tensor values_;  ///< [kinds, predictions], see loss_rows.cpp
};

/// 1 over the denominator, times the sequence's own weight.
double weight_of(const loss_parameters& parameters, const training_sequence& sequence,
                 const batch_totals& totals);

}  // namespace quern::policy
