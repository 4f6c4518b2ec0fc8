// The ledger: every sample of a run, in exactly one state, on disk. Operations and their promises
// are in ledger_interface.hpp; tables, triggers and recovery in README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/database.hpp"
#include "storage/ledger_interface.hpp"

namespace quern::storage {

/// A verdict as it was stored; `id` is what samples.verdict_id refers to.
struct stored_verdict {
  std::int64_t id = 0;
  verdict_row row;  ///< `counts` says whether it is the one that its sample refers to
};

/// How often arrivals were ignored since the ledger was opened.
struct ignored_arrivals {
  std::int64_t late = 0;
  std::int64_t stale = 0;
};

/// One thread at a time. Over a database opened for reading, writes fail.
class ledger final : public ledger_view, public ledger_sink {
 public:
  /// `db` must outlive the ledger.
  static base::expected<std::unique_ptr<ledger>> open(database& db);
  ~ledger() override;

  [[nodiscard]] base::expected<state_counts> counts() const override;
  [[nodiscard]] base::expected<ledger_position> position() const override;
  [[nodiscard]] base::expected<sample_row> sample(std::int64_t id) const override;
  [[nodiscard]] base::expected<group_row> group(std::int64_t id) const override;
  [[nodiscard]] base::expected<std::vector<sample_row>> in_state(sample_state state) const override;
  [[nodiscard]] base::expected<std::vector<group_row>> live_groups() const override;

  base::expected<incarnation_report> open_incarnation(const incarnation_request& request) override;
  base::expected<issued_group> issue(const group_spec& group) override;
  base::expected<arrived> generated(const generation& tokens) override;
  base::expected<arrived> evaluated(const verdict_row& verdict) override;
  base::status admit(std::span<const admission> samples) override;
  base::status consume(std::span<const std::int64_t> samples, std::int64_t step) override;
  base::expected<std::int64_t> record_checkpoint(const checkpoint_row& checkpoint) override;
  base::status drop(std::span<const std::int64_t> samples, std::string_view reason) override;
  base::expected<std::int64_t> stop() override;
  base::status commit() override;
  [[nodiscard]] bool durable() const override;

  /// Of the samples that a surviving gradient step used.
  [[nodiscard]] base::expected<age_counts> ages() const;
  [[nodiscard]] base::expected<std::map<std::string, std::int64_t>> drop_reasons() const;
  /// Of the events `first` .. `last` alone: a look through all of a large run takes seconds.
  [[nodiscard]] base::expected<std::vector<event_row>> events_of(
      std::int64_t sample, std::int64_t first = 0, std::int64_t last = INT64_MAX) const;
  [[nodiscard]] base::expected<std::vector<stored_verdict>> verdicts_of(std::int64_t sample) const;
  [[nodiscard]] base::expected<stored_verdict> verdict(std::int64_t id) const;
  /// Samples that a verdict has decided, whatever became of them since.
  [[nodiscard]] base::expected<std::int64_t> judged() const;
  /// Calls `visit` with the verdict that decided each sample, in the order of their arrival,
  /// whatever became of the samples since. Its error ends the visit.
  [[nodiscard]] base::status visit_judged(
      const std::function<base::status(const stored_verdict&)>& visit) const;
  /// Checkpoints that survive, newest first.
  [[nodiscard]] base::expected<std::vector<checkpoint_row>> checkpoints() const;
  [[nodiscard]] ignored_arrivals ignored() const { return ignored_; }

  /// Walks every event: chains are unbroken, legal and end in the state of their sample, backward
  /// steps lie in the opening of an incarnation, SQLite's own check passes. `corrupt` names the
  /// first sample that does not fit. Seconds on a large run.
  [[nodiscard]] base::status audit() const;

 private:
  struct statements;
  explicit ledger(database& db);
  base::status load();
  [[nodiscard]] base::status need_incarnation() const;
  [[nodiscard]] base::status can_start_from(std::int64_t version) const;

  struct located {
    sample_state state;
    std::optional<std::int64_t> newest;  ///< v_max
  };
  base::expected<located> locate(std::int64_t sample);
  /// What to do with an answer for a sample that should be `wanted`; counts the ignored.
  base::expected<arrival> judge_arrival(std::int64_t sample, std::int64_t incarnation,
                                        sample_state wanted);
  /// `step` > 0: also that the weights before it are not older than the sample.
  base::status need_state(std::int64_t sample, sample_state wanted, std::int64_t step = 0);

  database& db_;
  std::unique_ptr<statements> sql_;
  std::int64_t incarnation_ = 0;
  std::int64_t version_ = 0;
  std::int64_t next_seq_ = 0;
  std::int64_t next_sample_ = 1;
  ignored_arrivals ignored_;
};

}  // namespace quern::storage
