// What the samples of a run came to: by task, by step, by verdict and by what became of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "storage/sample_scan.hpp"

namespace quern::tools {

/// The fastest kernel of a task that a sample of the run was.
struct best_sample {
  std::int64_t speedup_e2 = 0;
  std::int64_t sample = 0;
  std::int64_t verdict_id = 0;
  std::optional<base::hash128> source;
};

/// Samples of one task.
struct task_sums {
  std::int64_t samples = 0;
  std::int64_t judged = 0;  ///< decided by a verdict
  std::int64_t ok = 0;
  std::int64_t rewarded = 0;  ///< that have a reward, be it 0
  double reward_sum = 0;
  std::optional<best_sample> best;  ///< none: no kernel was right and timed

  void add(const storage::scanned_sample& sample);
  task_sums& operator+=(const task_sums& other);
};

/// Sums over samples. A plain value.
struct sample_sums {
  std::map<std::string, task_sums> tasks;  ///< by the task's id
  std::map<std::string, std::int64_t> states;
  std::map<std::string, std::int64_t> verdicts;  ///< of those that a verdict decided
  std::map<std::string, std::int64_t> drops;     ///< by reason
  std::map<std::int64_t, std::int64_t> ages;     ///< steps behind when used
  /// Speed-ups in 1/100 of the kernels that a step was trained on and that were right.
  std::map<std::int64_t, std::vector<std::int32_t>> speedups;

  void add(const storage::scanned_sample& sample);
  sample_sums& operator+=(const sample_sums& other);
};

/// Follows the samples of a run that goes on. Those that can change no more, and all of whose
/// predecessors cannot either, are read once. Not thread-safe.
class sample_tally {
 public:
  /// Samples that one read transaction reads.
  static constexpr std::int64_t stretch = 500;

  /// Reads what is new. An incarnation that was opened since the last call makes it read everything
  /// again: samples may have gone back. Errors: run.db cannot be read; the sums are then as before.
  base::status read(storage::sample_scan& scan);

  [[nodiscard]] sample_sums sums() const;
  /// Grows whenever the sums may have changed.
  [[nodiscard]] std::int64_t changes() const { return changes_; }

 private:
  std::int64_t incarnation_ = 0;
  std::int64_t next_ = 1;  ///< every sample before it is in settled_
  sample_sums settled_;
  sample_sums open_;  ///< of the samples from next_ on
  std::int64_t changes_ = 0;
};

/// The tasks, or what else has such sums, by the speed-up of their best kernels, fastest first;
/// those without one last, by their names.
std::vector<std::pair<std::string, task_sums>> best_first(
    const std::map<std::string, task_sums>& tasks);

/// The quantile `share` (0 .. 1) of values, by linear interpolation; reorders them. At least one.
double quantile_of(std::vector<std::int32_t>& values, double share);

}  // namespace quern::tools
