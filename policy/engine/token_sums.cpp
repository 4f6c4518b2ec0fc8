#include "policy/engine/token_sums.hpp"

#include <algorithm>
#include <cmath>

#include "policy/loss/token_loss.hpp"

namespace quern::policy {

std::array<double, token_sums::added> token_sums::sums() const {
  return {tokens,          loss,         log_prob, entropy,          ratio,
          clipped,         dropped,      kl,       behaviour_tokens, mismatch,
          mismatch_tokens, behaviour_kl, rows,     sequences,        idle_sequences};
}

std::array<double, token_sums::compared> token_sums::maxima() const {
  return {ratio_max, mismatch_max};
}

token_sums token_sums::of(const double* sums, const double* maxima) {
  token_sums t;
  for (double* field : {&t.tokens, &t.loss, &t.log_prob, &t.entropy, &t.ratio, &t.clipped,
                        &t.dropped, &t.kl, &t.behaviour_tokens, &t.mismatch, &t.mismatch_tokens,
                        &t.behaviour_kl, &t.rows, &t.sequences, &t.idle_sequences})
    *field = *sums++;
  t.ratio_max = maxima[0];
  t.mismatch_max = maxima[1];
  return t;
}

void token_sums::add(const token_sums& other) {
  auto all = sums();
  const auto more = other.sums();
  for (std::size_t i = 0; i < added; ++i)
    all[i] += more[i];
  const std::array<double, compared> largest{std::max(ratio_max, other.ratio_max),
                                             std::max(mismatch_max, other.mismatch_max)};
  *this = of(all.data(), largest.data());
}

step_metrics metrics_of(const token_sums& total) {
  step_metrics m;
  const double used = std::max(1.0, total.tokens - total.dropped);
  m.loss = total.loss;
  m.tokens = total.tokens;
  m.sequences = total.sequences;
  m.idle_sequences = total.idle_sequences;
  m.mean_log_prob = total.log_prob / used;
  m.entropy = total.entropy / used;
  m.ratio = total.ratio / used;
  m.ratio_max = total.ratio_max;
  m.clip_fraction = total.clipped / used;
  m.dropped_fraction = total.dropped / std::max(1.0, total.tokens);
  m.kl = total.kl / used;
  m.mismatch_mean = total.mismatch / std::max(1.0, total.mismatch_tokens);
  m.mismatch_max = total.mismatch_max;
  m.mismatch_tokens = total.mismatch_tokens;
  m.behaviour_kl = total.behaviour_kl / std::max(1.0, total.behaviour_tokens);
  m.forward_rows = total.rows;
  return m;
}

double visit_token(const loss_parameters& p, const training_sequence& s, std::size_t token,
                   double weight, double computed, double entropy, std::int64_t version,
                   token_sums& total) {
  const auto at = [&](const std::vector<float>& values, double otherwise) {
    return values.empty() ? otherwise : static_cast<double>(values[token]);
  };
  const double log_prob = at(s.exact_log_probs, computed);
  token_input in;
  in.log_prob = log_prob;
  in.behaviour_log_prob = at(s.behaviour_log_probs, log_prob);
  in.proximal_log_prob = at(s.proximal_log_probs, log_prob);
  in.reference_log_prob = at(s.reference_log_probs, log_prob);
  in.advantage = s.advantage;
  const token_loss l = evaluate_token(p, in);
  total.tokens += 1;
  total.dropped += l.dropped ? 1 : 0;
  if (l.dropped) return l.gradient;
  total.loss += weight * l.loss;
  total.log_prob += log_prob;
  total.entropy += entropy;
  total.ratio += l.ratio;
  total.ratio_max = std::max(total.ratio_max, l.ratio);
  total.clipped += l.clipped ? 1 : 0;
  total.kl += l.kl;
  if (!s.behaviour_log_probs.empty()) {
    const double d = log_prob - in.behaviour_log_prob,
                 bounded = std::clamp(d, -p.log_ratio_clamp, p.log_ratio_clamp);
    total.behaviour_tokens += 1;
    total.behaviour_kl += std::exp(bounded) - bounded - 1;
    if (s.versions.empty() || s.versions[token] == version) {
      total.mismatch += std::abs(d);
      total.mismatch_max = std::max(total.mismatch_max, std::abs(d));
      total.mismatch_tokens += 1;
    }
  }
  return weight * l.gradient;
}

base::json to_json(const step_metrics& m) {
  return {{"version", m.version},
          {"loss", m.loss},
          {"grad_norm", m.grad_norm},
          {"learning_rate", m.learning_rate},
          {"skipped", m.skipped},
          {"tokens", m.tokens},
          {"sequences", m.sequences},
          {"idle_sequences", m.idle_sequences},
          {"mean_log_prob", m.mean_log_prob},
          {"entropy", m.entropy},
          {"ratio", m.ratio},
          {"ratio_max", m.ratio_max},
          {"clip_fraction", m.clip_fraction},
          {"dropped_fraction", m.dropped_fraction},
          {"kl", m.kl},
          {"mismatch_mean", m.mismatch_mean},
          {"mismatch_max", m.mismatch_max},
          {"mismatch_tokens", m.mismatch_tokens},
          {"behaviour_kl", m.behaviour_kl},
          {"forward_rows", m.forward_rows}};
}

}  // namespace quern::policy
