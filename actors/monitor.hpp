// What people see of a run while it goes: metrics.jsonl, the progress line, the numbers of `quern
// status`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/progress.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/replay/replay.hpp"
#include "base/json.hpp"
#include "storage/jsonl.hpp"

namespace quern::actors {

/// Thread-safe: the replay actor writes, the console reads.
class monitor {
 public:
  /// `terminal`: progress is one line that is written over; otherwise a line for each step.
  /// `roles` outlives it.
  static base::expected<std::unique_ptr<monitor>> make(const run_config& config,
                                                       const storage::run_paths& paths,
                                                       std::int64_t steps_done, role_board& roles,
                                                       bool terminal);

  /// Samples that were judged since the last call.
  void judged(const std::vector<judged_sample>& samples);
  /// A step was made; `metrics` is the learner's JSON object. Before `head` hears of it.
  void stepped(weights_version version, const std::string& metrics, const replay& head);
  /// Warns where nothing was judged and no step was made for long; asked now and then.
  void look();
  /// Leaves the progress line.
  void finish();

  /// For `quern status`.
  [[nodiscard]] base::json snapshot() const;

 private:
  monitor(const run_config& config, storage::jsonl_writer writer, std::int64_t steps_done,
          role_board& roles, bool terminal);
  void show(const std::string& line) const;

  const run_config& config_;
  role_board& roles_;
  mutable std::mutex guard_;
  storage::jsonl_writer writer_;
  progress progress_;
  base::steady_clock clock_;
  bool terminal_;
  base::nanoseconds_t started_;
  weights_version version_ = 0;
  std::map<std::string, std::int64_t> verdicts_;  ///< since the start of this process
  // Since the last step.
  std::int64_t judged_count_ = 0;
  std::int64_t ok_ = 0;
  double reward_sum_ = 0;
  base::json last_;
};

}  // namespace quern::actors
