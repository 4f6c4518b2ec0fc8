// The closed presets of the policy-gradient loss: a name stands for one whole formula, and the
// formula can be printed. One optimiser step minimises L = sum over tokens of weight * token loss;
// every piece of that sum is chosen here and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::policy {

/// - sft: likelihood of given text.
/// - reinforce: reward times log-probability, no baseline, truncated importance weight (stage
///   self_train).
/// - group_normalised: the advantage of GRPO (arXiv 2402.03300) in a clipped ratio. Unlike GRPO it
///   divides by the tokens of the batch and not by each answer's, has no KL term, and caps the
///   weight of negative advantages (dual clip, arXiv 1912.09729).
/// - group_centred: the advantage and the constant denominator of Dr. GRPO (arXiv 2503.20783).
///   Unlike Dr. GRPO it caps the weight of negative advantages.
/// - group_smoothed: group_normalised on rewards that are smoothed as CUDA-L1 does
///   (arXiv 2507.14111, Eq. 6), with a KL term to a reference. Unlike CUDA-L1 it renews the
///   statistics every smoothing_block rewards and not every 100 iterations.
enum class preset { sft, reinforce, group_normalised, group_centred, group_smoothed };

/// What the token losses are divided by. All counts are taken over the whole batch of the step,
/// before anything is filtered or masked out for its advantage, so dropping a token never makes the
/// others louder.
enum class denominator {
  tokens,     ///< number of trained tokens in the batch
  sequences,  ///< per sequence its number of trained tokens, then the number of sequences
  constant,   ///< denominator_tokens * number of sequences
};

/// Which policy the ratio is taken against.
enum class ratio_anchor {
  behaviour,  ///< the policy that sampled, by its recorded log-probs: the ratio corrects and is
              ///< clipped; importance weight 1
  proximal,   ///< the policy at the start of the step; the step from behaviour to proximal is a
              ///< truncated importance weight. Runs do not record its log-probs and never use it
};

struct loss_parameters {
  preset name = preset::group_normalised;
  ratio_anchor anchor = ratio_anchor::behaviour;
  denominator divide_by = denominator::tokens;
  double denominator_tokens =
      0;  ///< only for denominator::constant: the maximum number of completion tokens
  double std_epsilon = 1e-4;  ///< added to the group's standard deviation
  double clip_low = 0.2;      ///< ratio is clipped below at 1 - clip_low
  double clip_high = 0.2;     ///< ratio is clipped above at 1 + clip_high
  double log_ratio_clamp =
      10;                     ///< |log ratio| beyond this is cut before exp, and passes no gradient
  double importance_cap = 2;  ///< truncated importance weight: min(weight, cap)
  double negative_ratio_cap = 3;  ///< a negative advantage never weighs more than this times itself
  double negative_scale = 1;  ///< negative advantages are multiplied by this (0: successes only)
  double kl_coefficient = 0;  ///< weight of the KL term to the reference (k3 estimator)
  double smoothing_clip = 0;  ///< k of clip((r - mu) / sigma, -k, k); 0: rewards are not smoothed
  int smoothing_block = 100;  ///< rewards in one block of the rolling statistics
};

/// The preset's own values. A change to a value keeps the name; a change to the form of the formula
/// would be another preset.
loss_parameters preset_defaults(preset name);

/// A parameter whose value the formula does not admit.
struct loss_fault {
  std::string_view parameter;  ///< its field
  std::string text;            ///< what follows its name: "is 7, but must lie in [0, 1]"
};

/// The first fault: non-finite or negative values, a KL term or smoothing in a preset without one,
/// and so on. None: the formula admits all.
std::optional<loss_fault> find_fault(const loss_parameters& parameters);
/// The same as an error.
base::status check(const loss_parameters& parameters);

bool uses_group_baseline(preset name);
bool needs_reference(const loss_parameters& parameters);

std::string_view to_string(preset name);
std::string_view to_string(denominator value);
std::string_view to_string(ratio_anchor value);
/// An earlier name of a preset is refused with the name that it has now.
base::expected<preset> parse_preset(std::string_view text);
base::expected<denominator> parse_denominator(std::string_view text);
base::expected<ratio_anchor> parse_ratio_anchor(std::string_view text);
std::vector<std::string> preset_names();

}  // namespace quern::policy
