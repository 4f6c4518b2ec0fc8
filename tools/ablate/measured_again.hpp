// Answers of an ablation that were measured once more, over another baseline than their runs had.
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
  std::string task;    ///< its name, without the hash
  std::string hash;    ///< env::verdict::source
  std::string source;  ///< the kernel's text
};

/// The right answers of the last weights to held-out prompts in an evaluation_set.json, those of
/// its control among them. Errors: corrupt.
base::expected<std::vector<right_answer>> right_answers_of_evaluation_set(
    const base::json& written);

/// The same kernel of a task has one speed, whoever wrote it. So arms that answer alike are not
/// told apart by noise.
class measured_again {
 public:
  /// `task` is a name, `hash` that of the verdict in the run.
  void add(std::string_view task, std::string_view hash, env::verdict value);

  /// What counts in place of `value`: itself where it is not `ok`, since a failure has no speed to
  /// measure, and where nothing was measured again. Such a speed-up is over another baseline, so
  /// that a reward which names its baseline gives none.
  [[nodiscard]] env::verdict of(const env::verdict& value) const;

 private:
  std::map<std::pair<std::string, std::string>, env::verdict> known_;
};

/// The reward `name` over `baseline`: "speedup_capped/1@eager". Empty: over that of the task.
std::string reward_over(std::string_view name, std::string_view baseline);

/// "softmax_rows" of "softmax_rows@0c…".
std::string name_of_task(std::string_view id);

}  // namespace quern::tools
