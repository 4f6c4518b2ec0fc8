// What people see of a run while it goes: metrics.jsonl (and the same for TensorBoard), the
// progress line, the numbers of `quern status`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/batch_shape.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/drop_tally.hpp"
#include "actors/decide/generator_work.hpp"
#include "actors/decide/loss_watch.hpp"
#include "actors/decide/progress.hpp"
#include "actors/decide/queue_depths.hpp"
#include "actors/decide/role_board.hpp"
#include "actors/decide/search_book.hpp"
#include "actors/decide/success_watch.hpp"
#include "actors/orchestrator/exemplar_use.hpp"
#include "actors/orchestrator/orchestrator.hpp"
#include "actors/orchestrator/run_observer.hpp"
#include "base/json.hpp"
#include "storage/metrics_writer.hpp"

namespace quern::actors {

/// What the file that a monitor writes tells of the steps of a run.
struct metrics_so_far {
  success_watch success;  ///< as it was after the last of the steps
  std::string missing;    ///< for a person: trained steps that have no line; empty: all have one
  /// What is missing, and what the watch has said, a sentence each.
  [[nodiscard]] std::vector<std::string> warnings() const;
};

/// Reads `metrics` up to step `steps`. Steps that were taken again count as they were the last
/// time; lines that cannot be read are left out, with a warning. `trained`: how many steps the
/// newest checkpoint holds by the ledger; read that before, since each step's line is written
/// first.
metrics_so_far read_metrics_so_far(const std::filesystem::path& metrics, std::int64_t steps,
                                   std::int64_t trained);

/// What a monitor reads beside what it is told; all of it outlives the monitor.
struct monitor_sources {
  role_board& roles;
  const device_board& devices;
  const base::clock& clock;
};

/// Thread-safe: the orchestrator actor writes, the console reads.
class monitor final : public run_observer {
 public:
  static base::expected<std::unique_ptr<monitor>> make(const run_config& config,
                                                       const storage::run_paths& paths,
                                                       std::int64_t steps_done,
                                                       const monitor_sources& from);

  /// Samples whose evaluation ended since the last call.
  void judged(const std::vector<judged_sample>& samples);
  /// Samples that were dropped since the last call, by reason.
  void dropped(const drop_counts& counts);
  /// What a generator did since it told last.
  void generated(const generator_work& news) override;
  /// Prints the step's line and appends that of metrics.jsonl; warns of what its results show.
  void stepped(const finished_step& step) override;
  /// What a search has found so far (stage search; null: the run is none, nothing happens). The
  /// first call prints the head of the table. Each group's worth of evaluations prints a row and
  /// appends a line to metrics.jsonl.
  void searched(const search_book* book, incarnation_id incarnation, const queue_depths& queues);
  /// A batch was dropped since its gradient was not finite.
  void left_out() override;
  /// Warns where nothing was judged and no step was made for long, with the reason where no device
  /// takes work; asked now and then.
  void look() override;
  /// What `head` has to tell since the last call, by `judged`, `dropped` and `searched`.
  void take_news(orchestrator& head) override;
  /// Makes what was appended survive a power cut.
  void finish();

  /// For `quern status`.
  [[nodiscard]] base::json snapshot() const;

 private:
  monitor(const run_config& config, storage::metrics_writer writer, std::int64_t steps_done,
          const monitor_sources& from, metrics_so_far before);
  void watch_losses(const judged_sample& sample);
  void write_row(const search_book& book, incarnation_id incarnation, const queue_depths& queues);
  /// Keys of a line about what was judged and dropped since the line before.
  base::ordered_json take_judged();

  const run_config& config_;
  role_board& roles_;
  const device_board& devices_;
  const base::clock& clock_;
  mutable std::mutex guard_;
  storage::metrics_writer writer_;
  progress progress_;
  metrics_so_far told_;  ///< its `missing` is of when this process started
  base::nanoseconds_t started_;
  weights_version version_ = 0;
  std::map<std::string, std::int64_t> verdicts_;  ///< since the start of this process
  std::optional<search_book> search_;             ///< as it was told last
  search_book row_;                               ///< as it was at the last row
  loss_watch losses_;
  std::string newest_loss_;  ///< what the evaluator said
  // Since the last step.
  std::int64_t judged_count_ = 0;  ///< samples that got a reward
  std::int64_t ok_ = 0;            ///< of these
  double reward_sum_ = 0;
  std::map<std::string, std::int64_t> unjudged_;  ///< dropped without a reward, by verdict
  drop_counts dropped_;
  generator_work generators_;
  exemplar_use use_;  ///< of what got a reward
  std::int64_t left_out_ = 0;
  base::json last_;
};

}  // namespace quern::actors
