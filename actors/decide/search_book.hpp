// What a run with a fixed policy (stage search) has found, and what is left of its budget. The head
// of the run asks it for the size of the next group and for the end; the table on the terminal and
// metrics.jsonl show it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "actors/decide/ids.hpp"
#include "base/json.hpp"

namespace quern::actors {

/// The fastest kernel of a task so far. Speed-ups are over the task's baseline, in 1/100.
struct found_kernel {
  sample_id sample = 0;
  std::int64_t speedup_e2 = 0;
  /// 95 % interval of the measurement, in 1/100; both 0: the protocol gives none.
  std::int64_t low_e2 = 0, high_e2 = 0;
  std::int64_t evaluation = 0;  ///< how many were spent when it was judged, itself included
  bool operator==(const found_kernel&) const = default;
};

/// Not thread-safe; a copy is a snapshot.
class search_book {
 public:
  search_book() = default;
  /// `budget`: evaluations of the whole run; `group_size`: samples of a whole group; `tasks` that
  /// are searched.
  search_book(std::int64_t budget, std::int64_t group_size, std::int64_t tasks)
      : budget_(budget), group_size_(group_size), tasks_(tasks) {}

  /// Whether a sample that ended with this verdict has spent an evaluation. One that the evaluators
  /// failed to judge (infra_error, invalid_reference) has not: another takes its place. Noise and
  /// what cannot run here are the candidate's, else a search for them would never end.
  static bool spends(std::string_view verdict);

  /// A sample has ended with this verdict, which counts or is the last of its attempts.
  void ended(std::string_view verdict, std::int64_t samples = 1);
  /// A kernel that was not known before was judged `ok`; after `ended` told of it. `kernel` needs
  /// no `evaluation`. Of equal speed-ups the first one stays.
  void found(const std::string& task, found_kernel kernel);

  [[nodiscard]] std::int64_t budget() const { return budget_; }
  [[nodiscard]] std::int64_t spent() const { return spent_; }
  /// Samples of the next group where `open` ones may still be judged: a whole group, or what is
  /// left of the budget; 0: none is issued.
  [[nodiscard]] std::int64_t next_group(std::int64_t open) const;
  /// The budget is spent, and nothing is open.
  [[nodiscard]] bool over(std::int64_t open) const { return open == 0 && spent_ >= budget_; }

  /// By the name of the verdict, those that spent nothing among them.
  [[nodiscard]] const std::map<std::string, std::int64_t, std::less<>>& verdicts() const {
    return verdicts_;
  }
  /// By task id.
  [[nodiscard]] const std::map<std::string, found_kernel>& best() const { return best_; }
  /// Whether a row of the table is due that was not when `before` was the number spent: a group's
  /// worth of evaluations was spent, or the last one.
  [[nodiscard]] bool row_due(std::int64_t before) const;

  /// The head of the table, and its next row:
  ///   evaluations    best   95 % interval   verdicts
  ///         16/64   1.84x   1.80 to 1.88    9 ok, 4 wrong_value, 3 malformed
  /// For several tasks: how many have a kernel, and the geometric mean of their best speed-ups.
  [[nodiscard]] std::string table_head() const;
  [[nodiscard]] std::string table_row() const;
  /// "16 of 64 evaluations, best 1.84x", for a line of status.
  [[nodiscard]] std::string summary() const;

 private:
  [[nodiscard]] double mean_best() const;

  std::int64_t budget_ = 0;
  std::int64_t group_size_ = 1;
  std::int64_t tasks_ = 1;
  std::int64_t spent_ = 0;
  std::map<std::string, std::int64_t, std::less<>> verdicts_;
  std::map<std::string, found_kernel> best_;
};

/// {"task": ..., "sample": ..., "speedup_e2": ..., "low_e2": ..., "high_e2": ..., "evaluation":
/// ...}; an interval that is not there is left out.
base::ordered_json to_json(const std::string& task, const found_kernel& kernel);

}  // namespace quern::actors
