// Right answers of an ablation that were measured once more, over another baseline than their runs
// had.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::tools {

/// A right answer of an arm.
struct right_answer {
  std::string task;    ///< Id, with the hash of its content.
  std::string hash;    ///< As env::verdict::source.
  std::string source;  ///< The kernel's text.
};

/// The right answers of the last weights to held-out prompts in an evaluation_set.json, those of
/// its control among them. Errors: corrupt.
base::expected<std::vector<right_answer>> right_answers_of_evaluation_set(
    const base::json& written);

/// The same kernel of a task has one speed, whoever wrote it. So arms that answer alike are not
/// told apart by noise. Not thread-safe while it is filled.
class measured_again {
 public:
  measured_again() = default;
  /// Over `baseline`, of which nothing is known yet.
  explicit measured_again(std::string baseline) : baseline_(std::move(baseline)) {}

  /// Empty: nothing was measured again, and each verdict of a run counts.
  [[nodiscard]] const std::string& baseline() const { return baseline_; }

  /// `value` is what a kernel of task `value.task` was found to be. The first one counts.
  void add(env::verdict value);

  /// What counts in place of `value`, an answer to the task with this id. A failure stays one: it
  /// has no speed to measure. A right answer that has no second verdict `ok` is `noisy`, which is
  /// not judged: its speed over the baseline is not known.
  [[nodiscard]] env::verdict of(const std::string& task, const env::verdict& value) const;

 private:
  std::string baseline_;
  std::map<std::pair<std::string, std::string>, env::verdict> known_;
};

/// The reward `name` over `baseline`: "speedup_capped/1@eager". Empty: over that of the task.
std::string reward_over(std::string_view name, std::string_view baseline);

}  // namespace quern::tools
