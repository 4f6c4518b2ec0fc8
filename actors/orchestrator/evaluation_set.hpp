// The evaluation set: a fixed set of prompts on which the first and the last weights are compared.
// Same prompts, same seeds, exemplars frozen before the first weights are asked; nothing of it is
// trained on or archived.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/messages.hpp"
#include "actors/orchestrator/exemplar_use.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/json.hpp"
#include "env/verdict/reward.hpp"

namespace quern::actors {

enum class evaluation_set_side : std::uint8_t { first, last };

/// Of the ratio of the last weights' mean reward to that of the first, with 95 % confidence.
struct gain_interval {
  double low = 0, high = 0;
};

/// Rewards of one half of the evaluation set, before and after; paired by prompt. A pair of which
/// an evaluation told nothing about the kernel (noisy, infra_error, ...) is left out: that is no
/// reward of 0.
struct evaluation_set_half {
  std::vector<double> first;
  std::vector<double> last;
  std::size_t left_out = 0;  ///< pairs
  [[nodiscard]] double mean_first() const;
  [[nodiscard]] double mean_last() const;
  /// mean_last / mean_first; 0 where the first is 0.
  [[nodiscard]] double gain() const;
  /// The 2.5 % and 97.5 % quantiles of `gain` over 2,000 paired bootstrap draws, addressed by
  /// `seed`.
  [[nodiscard]] gain_interval interval(std::uint64_t seed) const;
};

/// Not thread-safe.
class evaluation_set {
 public:
  /// `observe.evaluation_set_train` prompts over the training tasks in turn and
  /// `observe.evaluation_set_held_out` over the held-out ones,
  /// `observe.evaluation_set_exemplars_share` of them with exemplars; with
  /// `observe.evaluation_set_swapped` each of these once more with exemplars of another task.
  /// Error: unknown reward.
  static base::expected<evaluation_set> make(const run_config& config, const task_book& tasks,
                                             const prompter& prompts);

  /// What `to_json` wrote of a complete evaluation set, for its figures, table and kernels; it has
  /// no prompts. Errors: corrupt; not_found for a task that is not in `tasks`.
  static base::expected<evaluation_set> read(const run_config& config, const task_book& tasks,
                                             const base::json& written);

  /// Kernels that have to be timed first, to be shown: replay.exemplars_shown for each task that
  /// shows any, or replay.seed_variants with observe.evaluation_set_exemplars_fastest.
  [[nodiscard]] std::vector<evaluate_sample> seed_variants() const;
  /// Their verdicts, by the sample numbers given in `seed_variants`. A task of whose kernels fewer
  /// than replay.exemplars_shown were timed shows none.
  void scored(sample_id id, const env::verdict& verdict);
  /// Prompts are fixed from here on.
  void freeze();

  /// One group of one sample for each prompt; both sides get the same.
  [[nodiscard]] std::vector<generate_group> questions() const;
  /// The task of a sample of the evaluation set; not_found for another number.
  [[nodiscard]] base::expected<std::string> task_of(sample_id sample) const;
  base::status answered(evaluation_set_side side, sample_id sample, const env::verdict& verdict,
                        const std::string& source);
  /// Every prompt has an answer.
  [[nodiscard]] bool complete(evaluation_set_side side) const;
  [[nodiscard]] std::size_t prompts() const { return items_.size(); }
  /// As many as one side may have waiting for evaluators at once.
  [[nodiscard]] std::size_t most_jobs() const { return items_.size() + seed_variants_.size(); }

  struct kernel {
    std::int64_t speedup_e2 = 0;
    std::string source;
    std::string verdict;  ///< JSON
  };
  /// The fastest correct kernel of a task among all answers; none: no answer was correct.
  [[nodiscard]] std::optional<kernel> best(const std::string& task_id) const;

  /// Of the task's own prompts: swapped ones are a control.
  [[nodiscard]] evaluation_set_half train() const { return half(false); }
  [[nodiscard]] evaluation_set_half held_out() const { return half(true); }
  /// Of one side's answers to prompts that showed the task's exemplars, or, with `swapped`, those
  /// of another task. "The best shown" is the fastest of the task's own in both.
  [[nodiscard]] exemplar_use use(evaluation_set_side side, bool held_out, bool swapped) const;

  /// Lines of a table: task, success and mean speed-up before and after, best kernel.
  [[nodiscard]] std::string table() const;
  /// The whole evaluation set for machines, sources included.
  [[nodiscard]] base::json to_json() const;

 private:
  struct answer {
    bool there = false;
    env::verdict verdict;
    std::string source;
    std::optional<double> reward;  ///< none: the verdict tells nothing about the kernel
  };
  struct item {
    const book_task* task = nullptr;
    std::vector<sample_id>
        own;  ///< seed variants of the task; empty: the prompt shows no exemplars
    bool with_exemplars = false;  ///< it was to show some
    bool swapped = false;         ///< those of another task
    std::string prompt;
    std::vector<std::string> shown;  ///< identities of what the prompt shows
    std::int64_t best_own_e2 = 0;    ///< the fastest of `own`; 0: it was not timed
    answer answers[2];
  };
  struct seed_variant {
    const book_task* task = nullptr;
    std::string source;
    std::int64_t speedup_e2 = 0;
  };

  evaluation_set(const run_config& config, const prompter* prompts, env::reward_function reward)
      : config_(&config), prompts_(prompts), reward_(reward) {}
  void add_items(const std::vector<const book_task*>& tasks, std::int64_t count);
  /// The sources that prompts of this task show, in order; the same in all of them.
  std::vector<sample_id> seed_variants_of(const book_task& task);
  /// What prompts of an item's task show, the slowest first: the fastest
  /// replay.exemplars_shown of its seed variants that were timed; none where fewer were.
  [[nodiscard]] std::vector<shown_exemplar> timed(const item& one) const;
  /// An item of another task whose exemplars were timed, drawn; null: there is none.
  [[nodiscard]] const item* other_than(std::size_t index) const;
  [[nodiscard]] evaluation_set_half half(bool held_out) const;

  const run_config* config_;
  const prompter* prompts_;  ///< null: of an evaluation set that was read
  env::reward_function reward_;
  std::vector<item> items_;
  std::map<sample_id, seed_variant> seed_variants_;
  std::map<const book_task*, std::vector<sample_id>> seed_variants_of_task_;
};

}  // namespace quern::actors
