// Which recorded completion a sample gets (`policy.engine: recorded`): a pure function of the run's
// seed, the group, the member and the completions, so that a resumed run plays the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/ids.hpp"
#include "actors/orchestrator/recorded_file.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Whose samples are asked for.
struct recorded_question {
  std::string_view task;    ///< full id
  std::string_view prompt;  ///< the text
  group_id group = 0;
};

/// Immutable after `make`; safe to share between threads.
class recorded_book {
 public:
  /// Keeps what the run may play: completions of its training tasks, and those by prompt. A text
  /// that stands twice under one task or prompt counts once. Error: invalid_argument, where a name
  /// is that of several tasks of the run, with their ids.
  static base::expected<recorded_book> make(std::vector<recorded_completion> all,
                                            const std::vector<book_task>& tasks,
                                            std::uint64_t seed);

  /// One text for each of `members` (places in the group, from 0), in their order. Completions of
  /// the prompt's hash come first; where there is none, those of the task. Members
  /// take distinct ones; beyond as many as there are, each round takes them in another order.
  /// Error: not_found, naming group, task and hash.
  [[nodiscard]] base::expected<std::vector<std::string>> choose(
      const recorded_question& question, std::span<const std::size_t> members) const;

  [[nodiscard]] bool has_task(std::string_view id) const;
  [[nodiscard]] bool has_prompt(const base::hash128& prompt) const;
  [[nodiscard]] bool has_prompts() const { return !by_prompt_.empty(); }
  /// What may be played, in the order of the file.
  [[nodiscard]] const std::vector<recorded_completion>& playable() const { return playable_; }
  /// Completions of tasks that this run does not train on: they are not played.
  [[nodiscard]] std::int64_t of_other_tasks() const { return of_other_tasks_; }

 private:
  using pool = std::vector<std::size_t>;  ///< places in playable_

  explicit recorded_book(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] const pool* pool_of(const recorded_question& question) const;
  [[nodiscard]] pool order_of_round(const pool& from, group_id group, std::uint64_t round) const;

  std::uint64_t seed_;
  std::vector<recorded_completion> playable_;
  std::map<std::string, pool, std::less<>> by_task_;
  std::unordered_map<base::hash128, pool> by_prompt_;
  std::int64_t of_other_tasks_ = 0;
};

/// The file that a run in the folder `run` plays: its own copy where it has one (run_paths), else
/// policy.recorded.
std::filesystem::path recorded_file_of(const run_config& config, const std::filesystem::path& run);

/// Reads that file. Error: invalid_argument, naming key, file, line and what to do.
base::expected<recorded_book> load_recorded(const run_config& config,
                                            const std::filesystem::path& run,
                                            const std::vector<book_task>& tasks);

/// The same, and the run gets its copy, so that a resume plays what the run began with.
base::expected<recorded_book> keep_recorded(const run_config& config,
                                            const std::filesystem::path& run,
                                            const std::vector<book_task>& tasks);

}  // namespace quern::actors
