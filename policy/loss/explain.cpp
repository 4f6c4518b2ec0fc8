// Prints the formula that token_loss.cpp and advantage.cpp compute, with the numbers in force.
#include "policy/loss/explain.hpp"

#include <fmt/core.h>

namespace quern::policy {
namespace {

std::string_view summary(preset name) {
  switch (name) {
    case preset::sft:
      return "likelihood of given text";
    case preset::reinforce:
      return "reward times log-probability, no baseline";
    case preset::group_normalised:
      return "group-normalised advantage as in GRPO (arXiv 2402.03300), clipped ratio; unlike "
             "GRPO: "
             "mean over the tokens of the batch, no KL term, cap for negative advantages";
    case preset::group_centred:
      return "group-centred advantage and constant denominator as in Dr. GRPO (arXiv 2503.20783); "
             "unlike Dr. GRPO: cap for negative advantages";
    case preset::group_smoothed:
      break;
  }
  return "group_normalised on smoothed rewards with a KL term, as in CUDA-L1 (arXiv 2507.14111, "
         "Eq. "
         "6); unlike CUDA-L1: statistics are renewed by rewards and not by iterations";
}

std::string explain_advantage(const loss_parameters& p) {
  std::string out = "from reward R_i of sample i to advantage A_i\n";
  if (p.name == preset::group_smoothed)
    out += fmt::format(
        "  s_i = clip((R_i - mu) / sigma, -{0}, {0})\n"
        "      mu, sigma: mean and population deviation of the last complete block of {1} rewards, "
        "in the order of the ledger;\n"
        "      before the first block is complete, or with sigma < 1e-6: s_i = R_i\n",
        p.smoothing_clip, p.smoothing_block);
  const std::string_view r = p.name == preset::group_smoothed ? "s" : "R";
  switch (p.name) {
    case preset::sft:
      out += "  A_i = 1\n";
      break;
    case preset::reinforce:
      out += "  A_i = R_i\n";
      break;
    case preset::group_centred:
      out +=
          fmt::format("  A_i = {0}_i - mean({0})    over the group of samples of one prompt\n", r);
      break;
    case preset::group_normalised:
    case preset::group_smoothed:
      out += fmt::format(
          "  A_i = ({0}_i - mean({0})) / (std({0}) + {1})    over the group of samples of one "
          "prompt; std with n - 1\n",
          r, p.std_epsilon);
  }
  if (uses_group_baseline(p.name))
    out += fmt::format(
        "  all {0} of a group equal within 1e-9 * max(1, |mean|), or fewer than two samples: A_i = "
        "0 exactly; tokens stay in N\n",
        r);
  if (p.negative_scale != 1 && p.name != preset::sft)
    out += fmt::format("  A_i < 0: A_i is multiplied by {}\n", p.negative_scale);
  return out;
}

std::string explain_ratio(const loss_parameters& p) {
  const double c = p.log_ratio_clamp;
  if (p.name == preset::reinforce)
    return fmt::format(
        "  w = min(exp(clamp(log pi - log mu, -{0}, {0})), {1})    held constant; mu: the policy "
        "that sampled\n",
        c, p.importance_cap);
  if (p.anchor == ratio_anchor::behaviour)
    return fmt::format(
        "  r = exp(clamp(log pi - log mu, -{0}, {0}))    mu: the policy that sampled, as "
        "recorded\n",
        c);
  return fmt::format(
      "  r = exp(clamp(log pi - log pi_p, -{0}, {0}))    pi_p: the policy at the start of the "
      "step\n"
      "  w = min(exp(clamp(log pi_p - log mu, -{0}, {0})), {1})    held constant; mu: the policy "
      "that sampled, as recorded\n",
      c, p.importance_cap);
}

std::string explain_token(const loss_parameters& p) {
  std::string out =
      "loss of one trained token of sample i (A = A_i, pi: the policy being trained, at the "
      "sampling temperature)\n";
  if (p.name == preset::sft) return out + "  l = -A log pi                   dl / d log pi = -A\n";
  out += explain_ratio(p);
  if (p.name == preset::reinforce)
    return out + "  l = -w A log pi                 dl / d log pi = -w A\n";
  const std::string_view w = p.anchor == ratio_anchor::proximal ? "w " : "";
  out += fmt::format("  u = min(r A, clip(r, {}, {}) A); for A < 0 at least {} A\n", 1 - p.clip_low,
                     1 + p.clip_high, p.negative_ratio_cap);
  if (p.kl_coefficient > 0)
    out += fmt::format(
        "  k3 = e^d - d - 1,  d = clamp(log pi_ref - log pi, -{0}, {0})\n"
        "  l = -{1}u + {2} k3               dl / d log pi = -{1}r A where neither clip, cap nor "
        "clamp cuts, else 0;\n"
        "                                  plus {2} (1 - e^d) where d is not clamped\n",
        p.log_ratio_clamp, w, p.kl_coefficient);
  else
    out += fmt::format(
        "  l = -{0}u                        dl / d log pi = -{0}r A where neither clip, cap nor "
        "clamp cuts, else 0\n",
        w);
  return out;
}

std::string explain_sum(const loss_parameters& p) {
  std::string out = "loss of one optimiser step\n";
  switch (p.divide_by) {
    case denominator::tokens:
      out += "  L = (1 / N) sum of l    N: trained tokens of the whole batch\n";
      break;
    case denominator::sequences:
      out +=
          "  L = (1 / S) sum over samples of (1 / |o_i|) sum of l    S: samples of the whole "
          "batch, |o_i|: trained tokens of sample i\n";
      break;
    case denominator::constant:
      out += fmt::format("  L = (1 / ({} S)) sum of l    S: samples of the whole batch\n",
                         p.denominator_tokens);
      break;
  }
  out +=
      "  counts are taken before anything is filtered; end tokens are trained, a truncated sample "
      "has none\n";
  out +=
      "  a log-probability that is not finite leaves the whole step out: its batch is dropped "
      "(non_finite)\n";
  return out;
}

}  // namespace

std::string explain_loss(const loss_parameters& p) {
  return fmt::format("loss preset {}: {}\n\n{}\n{}\n{}", to_string(p.name), summary(p.name),
                     explain_advantage(p), explain_token(p), explain_sum(p));
}

}  // namespace quern::policy
