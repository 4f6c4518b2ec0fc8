#include "actors/inspect/series_words.hpp"

#include <algorithm>

namespace quern::actors {
namespace {

constexpr series_entry entries[] = {
    {"step", "", "version of the weights that the newest step made"},
    {"spent", "", "stage search: evaluations that the run has spent"},
    {"budget", "", "stage search: evaluations that the run may spend"},
    {"incarnation", "", "life of the run that the newest line was made in"},
    {"seconds", "", "seconds since control was started, when the newest line was made"},
    {"batch/samples", "", "samples that the step was trained on"},
    {"batch/ok", "", "share of the samples of the step whose verdict is ok"},
    {"batch/reward", "", "mean reward of the samples of the step, as judged"},
    {"batch/rewarded", "", "samples of the step whose reward is not 0"},
    {"batch/verdicts/*", "verdict", "samples of the step by verdict"},
    {"judged", "", "samples that got a reward since the line before"},
    {"ok", "", "share of ok among samples judged since the line before"},
    {"reward", "", "mean reward of samples judged since the line before"},
    {"unjudged/*", "verdict", "samples without a reward since the line before, by verdict"},
    {"dropped/*", "reason", "samples dropped since the line before, by reason"},
    {"verdicts/*", "verdict", "stage search: samples of the whole run by verdict"},
    {"exemplars/judged", "", "judged samples whose prompt showed kernels"},
    {"exemplars/improved", "", "share of them that improve on the best shown"},
    {"exemplars/copied", "", "share of them that copy a kernel shown"},
    {"exemplars/over_best", "", "their speed-up over that of the best shown"},
    {"generator/kv_use", "", "share of the KV cache that sequences held, mean over passes"},
    {"generator/preemptions", "", "sequences that gave their pages back since the line before"},
    {"generator/installs", "", "installations of new weights since the line before"},
    {"generator/install_s", "", "seconds that one installation took from sampling, mean"},
    {"left_out", "", "steps left out since the line before: gradient not finite"},
    {"in_flight", "", "samples neither consumed nor dropped"},
    {"queues/*", "waits_for", "samples in flight that no step uses yet, by what they wait for"},
    {"completions/tokens_mean", "", "mean length of the completions of the step, in tokens"},
    {"completions/tokens_max", "", "length of the longest completion of the step, in tokens"},
    {"completions/truncated", "", "share of completions cut before their end token"},
    {"groups/count", "", "groups that the samples of the step are of"},
    {"groups/reward_spread", "", "standard deviation of rewards in a group, mean over groups"},
    {"groups/without_spread", "", "share of groups whose rewards are all equal"},
    {"ages/*", "steps_behind", "samples of the step by the age of their oldest token, in steps"},
    {"age_mean", "", "mean age of the samples of the step, in steps"},
    {"span_s", "", "seconds of the run since the line before, pauses left out"},
    {"tokens_generated", "", "tokens sampled since the line before"},
    {"tokens_per_s", "", "tokens sampled a second"},
    {"evaluations", "", "verdicts of evaluators since the line before"},
    {"evaluations_per_h", "", "verdicts of evaluators an hour"},
    {"roles/*/busy", "role", "share of time at work"},
    {"roles/*/idle", "role", "share of time without work"},
    {"roles/*/device_wait", "role", "share of time waiting for a turn on a shared GPU"},
    {"roles/*/absent", "role", "share of time in which nobody was there"},
    {"learner/version", "", "version of the weights that the learner's step made"},
    {"learner/loss", "", "what the step minimised"},
    {"learner/grad_norm", "", "norm of the gradient before clipping"},
    {"learner/learning_rate", "", "learning rate of the step"},
    {"learner/tokens", "", "tokens computed by the step"},
    {"learner/sequences", "", "sequences computed by the step"},
    {"learner/idle_sequences", "", "sequences without a gradient, not computed"},
    {"learner/mean_log_prob", "", "mean log-prob of trained tokens, in nats"},
    {"learner/entropy", "", "mean entropy of trained tokens, in nats"},
    {"learner/ratio", "", "mean importance ratio of trained tokens"},
    {"learner/ratio_max", "", "largest importance ratio of a trained token"},
    {"learner/clip_fraction", "", "share of trained tokens whose ratio was clipped"},
    {"learner/dropped_fraction", "", "share of trained tokens whose log-prob was not finite"},
    {"learner/kl", "", "KL divergence to the first weights, in nats a token"},
    {"learner/mismatch_mean", "", "mean difference of log-probs from the generator's, in nats"},
    {"learner/mismatch_max", "", "largest difference of log-probs from the generator's, in nats"},
    {"learner/mismatch_tokens", "", "tokens that the difference of log-probs is over"},
    {"learner/behaviour_kl", "", "KL divergence from the weights that sampled, in nats a token"},
    {"learner/step_s", "", "seconds of the step, without publishing weights"},
    {"learner/flops_per_s", "", "6 operations for each parameter and row, a second of the step"},
    {"learner/mfu", "", "flops_per_s over the peak of the learner's cards in bfloat16"},
    {"learner/forward_rows", "", "tokens computed by the model, shared prompts once"},
};

/// The next key of a name, which is taken off it.
std::string_view take_key(std::string_view& name) {
  const std::size_t end = std::min(name.find('/'), name.size());
  const std::string_view key = name.substr(0, end);
  name.remove_prefix(std::min(end + 1, name.size()));
  return key;
}

std::optional<known_series> matched(const series_entry& entry, std::string_view name) {
  known_series found{&entry, {}};
  std::string_view pattern = entry.name;
  while (!pattern.empty() && !name.empty()) {
    const std::string_view wanted = take_key(pattern), key = take_key(name);
    if (wanted == "*") {
      found.varying = key;
    } else if (wanted != key) {
      return std::nullopt;
    }
  }
  if (!pattern.empty() || !name.empty()) return std::nullopt;
  return found;
}

}  // namespace

std::span<const series_entry> all_series() {
  return entries;
}

std::optional<known_series> find_series(std::string_view name) {
  for (const series_entry& entry : entries)
    if (auto found = matched(entry, name)) return found;
  return std::nullopt;
}

}  // namespace quern::actors
