// Loss and gradient of one token.
#include "policy/loss/token_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::policy {
namespace {

struct clamped {
  double value;
  bool cut;
};

clamped clamp_log(double x, double limit) {
  return {std::clamp(x, -limit, limit), std::abs(x) > limit};
}

/// Adds beta * k3 and its derivative.
void add_kl(const loss_parameters& p, const token_input& in, token_loss& out) {
  const clamped d = clamp_log(in.reference_log_prob - in.log_prob, p.log_ratio_clamp);
  const double e = std::exp(d.value);
  out.kl = e - d.value - 1;
  out.loss += p.kl_coefficient * out.kl;
  if (!d.cut) out.gradient += p.kl_coefficient * (1 - e);
}

}  // namespace

token_loss evaluate_token(const loss_parameters& p, const token_input& in) {
  token_loss out;
  const bool proximal = p.anchor == ratio_anchor::proximal && uses_group_baseline(p.name);
  const bool finite = std::isfinite(in.log_prob) &&
                      (p.name == preset::sft || std::isfinite(in.behaviour_log_prob)) &&
                      (!proximal || std::isfinite(in.proximal_log_prob)) &&
                      (!needs_reference(p) || std::isfinite(in.reference_log_prob));
  if (!finite) {
    out.dropped = true;
    out.gradient = std::numeric_limits<double>::quiet_NaN();
    return out;
  }
  const double a = in.advantage;
  if (p.name == preset::sft) {
    out.loss = -a * in.log_prob;
    out.gradient = -a;
    return out;
  }
  if (p.name == preset::reinforce) {
    out.ratio = std::exp(clamp_log(in.log_prob - in.behaviour_log_prob, p.log_ratio_clamp).value);
    const double w = std::min(out.ratio, p.importance_cap);
    out.clipped = out.ratio > p.importance_cap;
    out.loss = -w * a * in.log_prob;
    out.gradient = -w * a;
    return out;
  }
  double w = 1;
  double anchor = in.behaviour_log_prob;
  if (proximal) {
    anchor = in.proximal_log_prob;
    w = std::min(std::exp(clamp_log(anchor - in.behaviour_log_prob, p.log_ratio_clamp).value),
                 p.importance_cap);
  }
  const clamped log_ratio = clamp_log(in.log_prob - anchor, p.log_ratio_clamp);
  const double r = std::exp(log_ratio.value);
  out.ratio = r;
  const double clip = std::clamp(r, 1 - p.clip_low, 1 + p.clip_high);
  double u = r * a;
  double du = r * a;  // dr / d log_prob = r
  if (clip * a < u) {
    u = clip * a;
    du = 0;
  }
  if (a < 0 && u < p.negative_ratio_cap * a) {
    u = p.negative_ratio_cap * a;
    du = 0;
  }
  if (log_ratio.cut) du = 0;
  out.clipped = a != 0 && du == 0;
  out.loss = -w * u;
  out.gradient = -w * du;
  if (needs_reference(p)) add_kl(p, in, out);
  return out;
}

double token_weight(const loss_parameters& p, double batch_tokens, double batch_sequences,
                    double sequence_tokens) {
  switch (p.divide_by) {
    case denominator::tokens:
      return 1 / batch_tokens;
    case denominator::sequences:
      return 1 / (batch_sequences * sequence_tokens);
    case denominator::constant:
      break;
  }
  return 1 / (batch_sequences * p.denominator_tokens);
}

}  // namespace quern::policy
