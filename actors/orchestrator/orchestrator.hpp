// The orchestrator of a run, without actors: issues groups, remembers what came of them in
// the ledger and the archive, forms batches, takes checkpoints, recovers. The orchestrator actor
// and the loop without actors each own one and carry its orders to generator, learner and
// evaluators.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/decide/batch_shape.hpp"
#include "actors/decide/drop_tally.hpp"
#include "actors/decide/queue_depths.hpp"
#include "actors/decide/role_times.hpp"
#include "actors/decide/sample_book.hpp"
#include "actors/decide/search_book.hpp"
#include "actors/decide/seed_variant_book.hpp"
#include "actors/decide/success_watch.hpp"
#include "actors/decide/task_sampler.hpp"
#include "actors/decide/unjudged_streak.hpp"
#include "actors/messages.hpp"
#include "actors/orchestrator/exemplar_use.hpp"
#include "actors/orchestrator/live_samples.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "actors/orchestrator/recorded_book.hpp"
#include "actors/orchestrator/run_checkpoints.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "env/verdict/reward.hpp"
#include "env/verdict/verdict.hpp"
#include "policy/loss/advantage.hpp"
#include "policy/loss/preset.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// A completion that is durable and waits to be read and judged.
struct completion_order {
  incarnation_id incarnation = 0;
  sample_id sample = 0;
  std::string task;
  std::string text;
  std::int32_t attempt = 0;
  std::int64_t best_known_e2 = 0;
  std::int64_t turn = 0;  ///< as in evaluate_sample
};

/// What is to be sent now. Everything that it rests on is durable.
struct orchestrator_orders {
  std::vector<generate_group> generate;
  std::vector<completion_order> judge;
  std::vector<evaluate_sample> seed_variant;
  std::vector<std::uint64_t> committed_leases;
  std::optional<train_batch> train;
  std::optional<save_checkpoint> save;
  std::optional<drained> end;
};

/// Where a learner and the generators start from.
struct starting_point {
  incarnation_id incarnation = 0;
  weights_version version = 0;
  std::string model;      ///< folder
  std::string optimizer;  ///< folder or file; empty: fresh
  std::string reference;  ///< folder of the run's first weights
};

/// One sample whose evaluation ended, for tables and metrics.
struct judged_sample {
  sample_id sample = 0;
  std::string task;
  std::string verdict;
  std::int64_t speedup_e2 = 0;
  std::optional<double> reward;  ///< none: dropped, the verdict says nothing about the candidate
  bool malformed = false;        ///< judged by control: no evaluator has seen it
  std::string detail;            ///< of infra_error: the first line of what the evaluator said
  exemplar_answer use = {};      ///< where its prompt showed kernels; else best_e2 is 0
};

/// Not thread-safe. An error of any call is fatal to the process (the ledger on disk is whole): the
/// run ends and is resumed from its last checkpoint.
class orchestrator {
 public:
  /// Opens run.db in `run` (creating it), begins an incarnation from the newest readable
  /// checkpoint, and takes up every live group. `run`, `config` and `tasks` must outlive it.
  /// `deterministic`: groups follow the logical schedule (decide/schedule.hpp); no run does so, the
  /// simulation compares lives of a run by it.
  static base::expected<std::unique_ptr<orchestrator>> open(const run_config& config,
                                                            storage::run_directory& run,
                                                            const task_book& tasks,
                                                            std::string device_class,
                                                            bool deterministic = false);

  [[nodiscard]] const starting_point& start() const { return start_; }

  // ---- events; then call `advance` ----
  /// Groups that generators could take right now, and the oldest version that any of them samples
  /// with. `advance` orders at most so many.
  void generators(std::int64_t free_groups, weights_version installed);
  /// A generator or the learner says which weights it holds. Error: conflict, when two processes
  /// hold different weights of one version.
  base::status on_weights(incarnation_id incarnation, weights_version version,
                          const base::hash128& hash);
  base::status on_generated(const generated_sample& sample);
  base::status on_verdict(const sample_verdict& verdict);
  /// A step was made, or left out since its gradient was not finite: then the batch is dropped.
  /// Error: unavailable, when defaults::most_left_out were left out in a row.
  base::status on_step(const step_done& step);
  base::status on_checkpoint(const checkpoint_saved& saved);
  void learner_ready(bool ready) { learner_ready_ = ready; }
  void drain(ending how) { draining_ = how; }
  /// The dispatcher gave these back unjudged: they stay `generated`. A run that drains waits for
  /// none of them.
  void on_withdrawn(const jobs_withdrawn& news);
  /// A generator died: what it held is made again, in the same incarnation, by whoever asks next.
  void generator_lost(const std::vector<sample_id>& samples);
  /// The learner died: the incarnation ends, and a new one begins from the last checkpoint.
  base::status learner_lost();

  /// Decides what to do next and makes it durable.
  base::expected<orchestrator_orders> advance();

  // ---- reading ----
  [[nodiscard]] incarnation_id incarnation() const { return book_->incarnation(); }
  [[nodiscard]] weights_version version() const { return book_->version(); }
  /// A batch is with the learner.
  [[nodiscard]] bool stepping() const { return book_->under_way().has_value(); }
  [[nodiscard]] std::size_t in_flight() const { return book_->live(); }
  /// What a live sample has to be sampled by; null: it is not live.
  [[nodiscard]] const issue_permit* permit_of(sample_id sample) const {
    return book_->permit_of(sample);
  }
  /// Evaluators have something to do, or will have.
  [[nodiscard]] bool wants_verdicts() const {
    return search_ ? !goal_reached() : book_->wants_verdicts(config_.learner.steps);
  }
  /// Stage search: what was found and spent, earlier lives of the run included; null otherwise.
  [[nodiscard]] const search_book* search() const { return search_ ? &*search_ : nullptr; }
  /// Why the last `advance` issued no more groups than it did; unknown: no generator had room.
  [[nodiscard]] role_wait held_up() const { return held_up_; }
  /// Samples of the batch under way by the number of steps that they are behind; none under way:
  /// empty.
  [[nodiscard]] std::map<std::int64_t, std::int64_t> batch_ages() const;
  /// What came of the samples of the batch under way; none under way: of no samples.
  [[nodiscard]] step_results batch_results() const;
  /// Its completions and the rewards of its groups; none under way: of no samples.
  [[nodiscard]] batch_shape batch_form() const;
  /// What live samples wait for, those of the batch under way left out.
  [[nodiscard]] queue_depths queues() const;
  [[nodiscard]] base::expected<storage::state_counts> counts() const { return ledger_->counts(); }
  [[nodiscard]] const storage::ledger& rows() const { return *ledger_; }
  [[nodiscard]] const storage::archive& variants() const { return *archive_; }
  /// Samples whose evaluation ended since the last call.
  std::vector<judged_sample> take_judged() { return std::exchange(judged_, {}); }
  /// Samples that were dropped since the last call, by reason; `no_learner`, which is how every
  /// sample of stage search ends, is left out.
  drop_counts take_dropped() { return drops_.take(); }
  /// At the end: commits, and folds the write-ahead log, so that run.db is one file. Where another
  /// process has run.db open the log stays, with a warning. Error: the commit.
  base::status close();

 private:
  orchestrator(const run_config& config, storage::run_directory& run, const task_book& tasks);
  base::status begin_incarnation(const std::string& reason);
  base::expected<std::vector<storage::group_row>> groups_to_restore();
  base::status restore_group(const storage::group_row& row);
  void queue_generation(group_id group);
  base::status apply(const std::vector<transition>& changes);
  base::status issue_groups(orchestrator_orders& orders);
  base::expected<bool> issue_one(orchestrator_orders& orders);
  /// The first step's groups show none: their samples must not wait for what has to be measured.
  [[nodiscard]] bool shows_exemplars(std::int64_t sequence) const;
  void draw_seed_variants(const book_task& task, group_id turn);
  /// Error: nothing has been judged for so long that nothing will be.
  base::status count_unjudged(const env::verdict& value);
  base::status on_left_out(const step_done& step);
  base::status on_seed_variant(const sample_verdict& verdict);
  base::expected<train_batch> make_batch(const batch& chosen);
  base::status archive_candidate(const env::verdict& value, sample_id id, std::int64_t verdict_id);
  /// Candidates that the dispatcher takes beside those that it has.
  [[nodiscard]] std::size_t room_for_evaluations() const;
  /// Seed variants, then samples in issue order, as long as there is room for them.
  base::status order_evaluations(orchestrator_orders& orders);
  base::status order_batch(orchestrator_orders& orders);
  void order_checkpoint(orchestrator_orders& orders);
  base::status end_if_drained(orchestrator_orders& orders);
  /// All steps are done, or the budget is spent and everything that was issued is judged.
  [[nodiscard]] bool goal_reached() const;
  /// Samples of the next group; 0: all that the run needs are issued.
  [[nodiscard]] std::int64_t next_group_size() const;
  [[nodiscard]] bool has_exemplars(const book_task& task) const;
  base::expected<generate_group> order_of(const live_group& group, group_id id,
                                          std::vector<sample_id> samples) const;

  const run_config& config_;
  storage::run_directory& run_;
  const task_book& tasks_;
  storage::blob_store blobs_;
  run_checkpoints checkpoints_;
  std::unique_ptr<storage::database> db_;
  std::unique_ptr<storage::ledger> ledger_;
  std::unique_ptr<storage::archive> archive_;
  std::optional<prompter> prompter_;
  std::optional<task_sampler> sampler_;
  std::optional<recorded_book> recorded_;  ///< policy.engine: recorded
  std::optional<sample_book> book_;
  std::optional<search_book> search_;  ///< stage search
  env::reward_function reward_;
  policy::loss_parameters loss_;
  policy::reward_statistics smoothing_;
  starting_point start_;

  live_samples samples_;
  seed_variant_book seed_variants_;
  group_id newest_group_ = 0;  ///< issued or restored by this process
  std::deque<group_id>
      to_generate_;  ///< live groups of an earlier incarnation or of a lost generator
  std::vector<std::uint64_t> leases_to_commit_;
  unjudged_streak unjudged_{config_.algorithm.group_size};
  drop_tally drops_;
  std::vector<judged_sample> judged_;
  int left_out_in_a_row_ = 0;             ///< batches
  std::vector<double> stepping_rewards_;  ///< of the batch under way, in its order
  std::int64_t free_groups_ = 0;
  role_wait held_up_ = role_wait::unknown;
  weights_version installed_ = 0;
  bool learner_ready_ = false;
  std::optional<ending> draining_;
  bool deterministic_ = false;
};

}  // namespace quern::actors
