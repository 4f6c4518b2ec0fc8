// What the held-out tasks got from an arm: one answer for each prompt of the evaluation set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/orchestrator/exemplar_use.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "env/verdict/reward.hpp"
#include "env/verdict/verdict.hpp"
#include "tools/ablate/measured_again.hpp"

namespace quern::tools {

struct held_out_answer {
  std::string task;
  std::int64_t ordinal = 0;  ///< which answer of its task; pairs answers of arms
  bool judged = false;       ///< the verdict tells something about the kernel
  double reward = 0;
  double speedup = 0;  ///< over the baseline; 0: no correct kernel
  friend bool operator==(const held_out_answer&, const held_out_answer&) = default;
};

/// Of a verdict, with the reward that all arms are compared by.
held_out_answer answer_of(const env::verdict& value, const env::reward_function& reward,
                          std::int64_t ordinal);

/// The held-out items of an evaluation_set.json. Errors: corrupt.
base::expected<std::vector<base::json>> held_out_items(const base::json& written);

/// Whose answer: the weights that a run began with, or its last ones.
enum class weights { first, last };

/// What an answer of such an item was found to be. Errors: corrupt.
base::expected<env::verdict> verdict_of(const base::json& item, const std::string& task,
                                        weights of = weights::last);

/// Answers to held-out prompts in an evaluation_set.json; those of its control (`swapped`) are left
/// out. What `again` has counts in place of what was measured in the run. Errors: corrupt;
/// not_found where there is none.
base::expected<std::vector<held_out_answer>> answers_of_evaluation_set(
    const base::json& written, const env::reward_function& reward, const measured_again& again = {},
    weights of = weights::last);

/// An answer to a held-out prompt that showed two kernels.
struct shown_answer {
  bool swapped =
      false;  ///< they were of another task: the control of observe.evaluation_set_swapped
  held_out_answer answer;  ///< its ordinal counts prompts of the task that showed some, each of
                           ///< the two kinds alone
  actors::exemplar_answer use;
};

/// Those of the last weights in an evaluation_set.json, judged or not; none where no prompt showed
/// kernels with a time. `use` is by the run's own measurements, which those of the kernels shown
/// are. Errors: corrupt.
base::expected<std::vector<shown_answer>> shown_answers_of_evaluation_set(
    const base::json& written, const env::reward_function& reward,
    const measured_again& again = {});

/// How many of `count` prompts the evaluation set gives to each of `tasks`, in turn.
std::map<std::string, std::size_t> prompts_of_tasks(const std::vector<std::string>& tasks,
                                                    std::int64_t count);

/// Of a search, its last answers to each task, as many as `asked` says; `verdicts` in the order in
/// which they were made.
std::vector<held_out_answer> last_answers(const std::vector<env::verdict>& verdicts,
                                          const std::map<std::string, std::size_t>& asked,
                                          const env::reward_function& reward);

}  // namespace quern::tools
