// Which task a group gets. A pure function of the group's number, so that a resumed run asks the
// same questions; held-out tasks cannot be issued because the sampler never knows them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

struct curriculum_entry {
  std::string task;  ///< task id (name@hash)
  bool held_out = false;
  std::int64_t weight = 1;  ///< times it appears in one pass; 0: not trained on
};

/// The tasks are issued in passes: each pass holds every task `weight` times, in an order of its
/// own that is addressed by (seed, "curriculum", pass). Every task is therefore seen equally often
/// per weight, after any number of passes. Not thread-safe (the order of the current pass is kept).
class task_sampler {
 public:
  /// Held-out entries are refused with invalid_argument that names them, rather than skipped: a
  /// suite that was split wrongly must not be trained on by half. Also refused: no task with a
  /// weight, a task twice, a negative weight.
  static base::expected<task_sampler> make(std::uint64_t seed,
                                           std::vector<curriculum_entry> entries);

  /// The task of group `sequence` (>= 0).
  const std::string& task_of(std::int64_t sequence);
  [[nodiscard]] std::int64_t pass_length() const { return static_cast<std::int64_t>(deck_.size()); }

 private:
  task_sampler(std::uint64_t seed, std::vector<std::string> tasks, std::vector<std::size_t> deck)
      : seed_(seed), tasks_(std::move(tasks)), deck_(std::move(deck)) {}

  std::uint64_t seed_;
  std::vector<std::string> tasks_;
  std::vector<std::size_t> deck_;   // one pass, unshuffled: indices into tasks_
  std::vector<std::size_t> order_;  // the pass that was asked for last, shuffled
  std::int64_t pass_ = -1;
};

}  // namespace quern::actors
