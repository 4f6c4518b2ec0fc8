// The loss of one token and its derivative by the token's log-probability, in closed form.
// Everything here is double arithmetic on scalars: the trainer calls it once a token and multiplies
// the result into the logits' gradient.
#pragma once

#include "policy/loss/preset.hpp"

namespace quern::policy {

struct token_input {
  double log_prob = 0;            ///< log pi_theta of the token at the sampling temperature
  double behaviour_log_prob = 0;  ///< as recorded at sampling
  double proximal_log_prob = 0;   ///< only read with ratio_anchor::proximal
  double reference_log_prob = 0;  ///< only read where kl_coefficient > 0
  double advantage = 0;
};

struct token_loss {
  double loss = 0;      ///< before the weight 1 / denominator
  double gradient = 0;  ///< d loss / d log_prob
  double ratio =
      1;  ///< pi_theta / anchor after the clamp (importance weight for reinforce; 1 for sft)
  double kl = 0;  ///< k3 estimate of KL(pi_theta || reference), 0 where there is no reference
  bool clipped = false;  ///< the clip, the cap or the clamp cut the surrogate's gradient
  /// A log-prob was not finite: no loss is counted, and the gradient is no number, so that the norm
  /// of the whole step is none and the step is left out.
  bool dropped = false;
};

/// r = exp(clamp(log_prob - anchor)), w = min(exp(clamp(proximal - behaviour)), cap) or 1:
///   u = min(r A, clip(r, 1 - low, 1 + high) A), for A < 0 at least negative_ratio_cap * A;  loss =
///   -w u + beta k3 reinforce: w = min(exp(clamp(log_prob - behaviour)), cap) held constant; loss =
///   -w A log_prob sft: loss = -A log_prob k3 = e^d - d - 1 with d = clamp(reference - log_prob)
token_loss evaluate_token(const loss_parameters& parameters, const token_input& input);

/// Weight of each trained token of one sequence: 1 over the denominator. Counts are of the whole
/// batch before filtering.
double token_weight(const loss_parameters& parameters, double batch_tokens, double batch_sequences,
                    double sequence_tokens);

}  // namespace quern::policy
