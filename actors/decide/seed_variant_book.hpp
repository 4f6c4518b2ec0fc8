// Seed variants: grammar variants of a task that are timed so that its prompts can show kernels
// before the policy has written any. Which are asked for, which wait, and for what task an answer
// is.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/messages.hpp"

namespace quern::actors {

/// Seed variants have sample numbers of their own, from `first_seed_variant`, and no row in the
/// ledger. A task is asked for once in an incarnation. Not thread-safe.
class seed_variant_book {
 public:
  struct variant {
    std::string task;
    std::string source;
  };

  /// Whether the task's were drawn in this incarnation, if there were none to draw, too.
  [[nodiscard]] bool drawn(const std::string& task) const { return missing_.contains(task); }
  /// They wait to be handed to evaluators; `turn` as in evaluate_sample.
  void draw(const std::string& task, std::vector<std::string> sources, incarnation_id incarnation,
            group_id turn);
  /// The next `most` of those that wait.
  std::vector<evaluate_sample> take(std::size_t most);

  /// Whose verdict that is, once: nobody's, or one that will be tried again, is none.
  std::optional<variant> answered(const sample_verdict& verdict);

  /// Some seed variant of the task has no verdict yet.
  [[nodiscard]] bool waits_for(const std::string& task) const;
  /// All that have no verdict yet; those that evaluators have.
  [[nodiscard]] std::size_t open() const { return open_.size(); }
  [[nodiscard]] std::size_t out() const { return open_.size() - waiting_.size(); }

  /// A new incarnation: nothing was asked for. Numbers go on, so that late answers are nobody's.
  void clear();

 private:
  std::unordered_map<std::string, std::size_t> missing_;  ///< verdicts still out, by task
  std::unordered_map<sample_id, variant> open_;
  std::deque<evaluate_sample> waiting_;  ///< not yet with the dispatcher
  sample_id next_ = first_seed_variant;
};

}  // namespace quern::actors
