// What a step adds up over trained tokens: over threads, then over ranks, then as means.
#pragma once

#include <array>
#include <cstdint>

#include "policy/engine/sequence.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/loss/preset.hpp"

namespace quern::policy {

struct token_sums {
  double tokens = 0, loss = 0, log_prob = 0, entropy = 0, ratio = 0, clipped = 0, dropped = 0,
         kl = 0;
  double behaviour_tokens = 0, mismatch = 0, mismatch_tokens = 0, behaviour_kl = 0;
  double rows = 0, sequences = 0, idle_sequences = 0;
  double ratio_max = 0, mismatch_max = 0;

  static constexpr std::size_t added = 15, compared = 2;
  /// The numbers that add up, and those of which the largest counts.
  [[nodiscard]] std::array<double, added> sums() const;
  [[nodiscard]] std::array<double, compared> maxima() const;
  static token_sums of(const double* sums, const double* maxima);
  /// Of another thread's tokens.
  void add(const token_sums& other);
};

/// Of the sums of all ranks. Version, norm and learning rate are not among them.
step_metrics metrics_of(const token_sums& total);

/// Loss and gradient of one prediction; `weight` multiplies both. Returns d loss / d log_prob and
/// adds up what the metrics want to know of it.
double visit_token(const loss_parameters& p, const training_sequence& s, std::size_t token,
                   double weight, double log_prob, double entropy, std::int64_t version,
                   token_sums& total);

}  // namespace quern::policy
