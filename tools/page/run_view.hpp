// What the files of a run tell a person: everything that the page of a run and `quern compare`
// show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/jsonl_tail.hpp"
#include "storage/run_directory.hpp"
#include "tools/page/sample_tally.hpp"
#include "tools/page/step_curves.hpp"

namespace quern::tools {

/// Longest source of a kernel that a page shows whole.
inline constexpr std::size_t most_source_bytes = 64 * 1024;
/// Kernels whose source a page shows, and rows of its table of tasks.
inline constexpr std::size_t most_kernels = 10;
inline constexpr std::size_t most_task_rows = 500;

/// What a person calls a task.
struct task_words {
  std::string chain;   ///< "relu | scale 0.5 | row_sum"; the task's name where no grammar made it
  std::string family;  ///< empty: unknown
  bool held_out = false;
};

enum class run_state { running, paused, complete };

/// Who holds RUN/LOCK while it is held.
enum class lock_holder { its_run, this_process };
std::string_view to_string(run_state state);

/// The files of a run in any state, the broken ones among them: what cannot be read is a sentence
/// in problems(), and the rest is there. Takes no lock, and holds run.db open only during
/// refresh(). Not thread-safe.
class run_view {
 public:
  /// `folder`: of a run, or of a stage of a chain. Reads its configuration and makes its tasks
  /// again for their names. `lock`: this_process, where the caller has the lock and the run has
  /// ended. Error: not_found or version, when it is no run of this build's layout.
  static base::expected<run_view> open(const std::filesystem::path& folder,
                                       lock_holder lock = lock_holder::its_run);

  /// Reads what was added since the last call. No read transaction of run.db lasts longer than it
  /// takes to read 500 rows.
  void refresh();

  /// All that a page shows (docs/report.md has the keys). `live`: whether it is asked again.
  [[nodiscard]] base::ordered_json data(bool live) const;

  /// Grows with each refresh that has found something new.
  [[nodiscard]] std::int64_t revision() const { return revision_; }
  [[nodiscard]] run_state state() const { return state_; }
  [[nodiscard]] std::string name() const;
  [[nodiscard]] const std::optional<actors::run_config>& config() const { return config_; }
  [[nodiscard]] const step_curves& curves() const { return curves_; }
  [[nodiscard]] sample_sums samples() const { return tally_.sums(); }
  /// What could not be read, a sentence each: damage() and what takes nothing from the figures,
  /// such as single lines of metrics.jsonl or the names of tasks.
  [[nodiscard]] std::vector<std::string> problems() const;
  /// The second kind alone.
  [[nodiscard]] std::vector<std::string> remarks() const;
  /// Files without which figures of the run are missing, each with what to do; empty: it is whole.
  [[nodiscard]] std::vector<base::error> damage() const;
  /// Whether what samples() says is all that the ledger has.
  [[nodiscard]] bool has_samples() const { return !problems_.contains("ledger"); }
  [[nodiscard]] task_words words_of(const std::string& task) const;
  /// {"x", "low", "median", "high", "best"}: speed-ups of what each step was trained on.
  [[nodiscard]] base::ordered_json speedups(const sample_sums& sums) const;

 private:
  explicit run_view(std::filesystem::path folder)
      : paths_{std::move(folder)}, tail_(paths_.metrics()) {}
  void read_config();
  void read_ledger();
  base::status scan_ledger();
  void read_kernels(storage::sample_scan& scan, const sample_sums& sums);
  void read_metrics();
  void check_metrics();
  void read_state();
  [[nodiscard]] base::ordered_json tasks_json(const sample_sums& sums) const;
  [[nodiscard]] base::ordered_json families_json(const sample_sums& sums) const;
  [[nodiscard]] base::ordered_json kernels_json() const;
  [[nodiscard]] base::ordered_json settings_json() const;
  [[nodiscard]] base::ordered_json progress_json() const;

  /// Of one part of the run.
  struct part_problem {
    base::error why;
    bool damages = true;  ///< figures are missing
  };
  [[nodiscard]] std::vector<base::error> told_problems(bool damaging) const;

  struct shown_kernel {
    std::string task;
    best_sample best;
    std::string source, verdict, problem;
  };

  storage::run_paths paths_;
  lock_holder lock_ = lock_holder::its_run;
  base::json meta_;
  std::optional<actors::run_config> config_;
  std::map<std::string, task_words> words_;
  storage::jsonl_tail tail_;
  step_curves curves_;
  sample_tally tally_;
  std::int64_t checkpoint_ = -1;
  std::vector<shown_kernel> kernels_;
  std::string report_;
  run_state state_ = run_state::paused;
  /// By what cannot be read: "configuration", "tasks", "metrics", "steps", "ledger", "lock".
  std::map<std::string, part_problem> problems_;
  std::string seen_;  ///< what the last refresh found, in short
  std::int64_t revision_ = 0;
};

}  // namespace quern::tools
