// What the rest of Quern may ask of the ledger and tell it. The ledger proper is `ledger`; a test
// that plants a bug, or a simulation, may stand between with a class of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "storage/ledger_rows.hpp"

namespace quern::storage {

/// Reads. On the writer's connection they see what is not yet committed, too.
class ledger_view {
 public:
  virtual ~ledger_view() = default;

  /// The law, counted from rows.
  [[nodiscard]] virtual base::expected<state_counts> counts() const = 0;
  [[nodiscard]] virtual base::expected<ledger_position> position() const = 0;
  /// `not_found` when there is no such row.
  [[nodiscard]] virtual base::expected<sample_row> sample(std::int64_t id) const = 0;
  [[nodiscard]] virtual base::expected<group_row> group(std::int64_t id) const = 0;
  /// In issue order.
  [[nodiscard]] virtual base::expected<std::vector<sample_row>> in_state(
      sample_state state) const = 0;
  /// Groups with at least one live sample, in issue order, with all their samples: what a resumed
  /// run builds its memory from.
  [[nodiscard]] virtual base::expected<std::vector<group_row>> live_groups() const = 0;
};

/// Writes. Nothing is durable before `commit` has returned success (or an operation has filled the
/// batch and committed by itself): acknowledge to other processes only when `durable()`.
/// An operation that returns an error has changed nothing; the rest of the batch stands. After a
/// commit has failed every call fails: the process must end and recover from disk.
class ledger_sink {
 public:
  virtual ~ledger_sink() = default;

  /// Starts an incarnation, which must be done before anything else is written. Rolls back what did
  /// not survive: samples made by weights above `from_version` go back to `issued` and their tokens
  /// are forgotten; samples used by steps above it go back to `admitted`; samples with unreadable
  /// tokens go back to `issued`. Commits.
  virtual base::expected<incarnation_report> open_incarnation(
      const incarnation_request& request) = 0;

  virtual base::expected<issued_group> issue(const group_spec& group) = 0;

  /// issued > generated, for the first tokens that arrive.
  virtual base::expected<arrived> generated(const generation& tokens) = 0;

  /// generated > evaluated, for the first verdict of an attempt that counts.
  virtual base::expected<arrived> evaluated(const verdict_row& verdict) = 0;

  /// evaluated > admitted, all of them or none.
  virtual base::status admit(std::span<const admission> samples) = 0;

  /// admitted > consumed by the gradient step that makes version `step`, which must be the next
  /// one. A sample made by weights newer than step - 1 (a negative age) is `internal`, fatal.
  virtual base::status consume(std::span<const std::int64_t> samples, std::int64_t step) = 0;

  /// Records a checkpoint that is durable already, and turns every consumed sample of its version
  /// or an earlier one into trained, in one transaction; returns how many. Commits.
  virtual base::expected<std::int64_t> record_checkpoint(const checkpoint_row& checkpoint) = 0;

  /// issued, generated, evaluated or admitted > dropped.
  virtual base::status drop(std::span<const std::int64_t> samples, std::string_view reason) = 0;

  /// Drops every live sample with reason `stopped`; returns how many. A checkpoint must have been
  /// recorded: a consumed sample cannot be dropped. Commits.
  virtual base::expected<std::int64_t> stop() = 0;

  virtual base::status commit() = 0;
  /// Nothing is waiting for a commit.
  [[nodiscard]] virtual bool durable() const = 0;
};

}  // namespace quern::storage
