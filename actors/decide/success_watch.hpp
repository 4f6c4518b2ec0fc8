// Whether the policy still writes kernels that are right: warns when the success rate collapses,
// and when steps get no reward at all.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/decide/step_spans.hpp"
#include "base/json.hpp"

namespace quern::actors {

/// What came of the samples that one step trained on. Rewards are as judged, not as smoothed.
struct step_results {
  weights_version step = 0;  ///< version that the step made
  std::int64_t samples = 0;
  std::int64_t rewarded = 0;                     ///< samples whose reward is not 0
  double reward_sum = 0;                         ///< of all samples
  std::map<std::string, std::int64_t> verdicts;  ///< samples by the name of their verdict

  [[nodiscard]] std::int64_t ok() const;
  void add(const std::string& verdict, double reward);
};

/// The value of key `batch` in metrics.jsonl; shares and means of no sample are null.
base::ordered_json to_json(const step_results& results);
/// From a whole line of it; none: the line is of a run that did not tell yet, or not whole.
std::optional<step_results> read_step_results(const base::json& line);
/// "ok  28 %  reward 0.28"; "no samples".
std::string text_of(const step_results& results);

/// Asked with every step in turn; not thread-safe. Where it is not told of some steps, such as
/// those whose lines a file lacks, what it says names those that it knows; "in a row" is among
/// them.
///
/// Collapse: let `b` be the best level so far, the success rate of some `window` samples (at least
/// half as many) of steps in a row, by the lower end of its Wilson interval (99 %); and `r` that of
/// the newest `window` samples, which were all trained on later. The rate has collapsed when r is
/// at most a fifth of b, and so few successes had a probability below 1 % even if the rate had only
/// halved from that lower end. It is over when r is half of b again.
class success_watch {
 public:
  struct options {
    std::int64_t window = 64;      ///< samples; steps are not split
    double collapsed_share = 0.2;  ///< of the best level: from here down
    double recovered_share = 0.5;  ///< of the best level: from here up
    double probability = 0.01;     ///< of a false alarm, at half of the lower end
    std::int64_t unrewarded = 3;   ///< steps in a row without a reward
  };

  success_watch() = default;
  explicit success_watch(options bounds) : options_(bounds) {}

  /// What is to be said now, a sentence each; mostly nothing. Steps without samples are no news.
  std::vector<std::string> step(const step_results& results);

  /// All that was said, with what came of it, a sentence each in order: for the closing report.
  [[nodiscard]] std::vector<std::string> remarks() const;

 private:
  /// Sums over steps in a row.
  struct level {
    step_spans steps;
    step_results sum;
    [[nodiscard]] double share() const;
    void add(const step_results& results);
  };
  enum class trouble : std::uint8_t { collapse, unrewarded };
  struct episode {
    trouble trouble_kind = trouble::collapse;
    level before;  ///< collapse: the best level
    level during;  ///< from the steps that showed it on
    bool over = false;
  };

  void slide(const step_results& results);
  [[nodiscard]] level of(const std::deque<step_results>& steps) const;
  [[nodiscard]] bool has_collapsed(const level& now) const;
  [[nodiscard]] static std::string text_of(const episode& one);
  episode* open(trouble what);
  const episode& begin(trouble what, const level& during);

  options options_;
  std::deque<step_results> newest_;   ///< as few steps as make a window
  std::deque<step_results> earlier_;  ///< before those, at most a window and a step
  std::optional<level> best_;
  double best_low_ = 0;  ///< lower end of its interval
  level unrewarded_;     ///< the steps in a row that had no reward
  std::int64_t unrewarded_steps_ = 0;
  std::vector<episode> episodes_;
};

}  // namespace quern::actors
