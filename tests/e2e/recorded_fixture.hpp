// Recorded completions for the tasks of a test's run, and what became of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"

namespace quern::test {

/// A completion that a run may play.
struct recorded_candidate {
  std::string task;  ///< name or full id
  std::string text;
  std::string verdict;  ///< the right one; empty: not known before
  bool best = false;    ///< the fastest of its task
};

/// The configuration that a command of train_command starts.
actors::run_config config_of(const std::vector<std::string>& train);

/// For each task that is trained on: two fast kernels, two slow ones and two wrong ones, from the
/// grammar of the task's lane. The fastest is that under cost_model/1.
std::vector<recorded_candidate> kernels_for(const actors::task_book& tasks);

/// The same as a file of policy.recorded.
void write_recorded(const std::filesystem::path& file,
                    const std::vector<recorded_candidate>& completions);

/// A sample of a run's ledger that has tokens.
struct played_sample {
  std::int64_t group = 0, place = 0, last_version = 0;
  std::string task, prompt, text;
  std::vector<float> log_probs;
  bool truncated = false;
  std::string state, drop_reason;  ///< in the ledger; no reason: empty
  std::string verdict;             ///< kind of the newest one; empty: there is none
  std::optional<double> reward;
};
/// All of them, in order.
std::vector<played_sample> played_in(const std::filesystem::path& run);

/// Each sample of the run has the text that its seed, group and place choose of the run's file.
void check_played(const std::filesystem::path& run, const actors::run_config& config);

}  // namespace quern::test
