// The ledger's large turns: opening an incarnation (recovery), recording a checkpoint, stopping.
#include "storage/ledger_sql.hpp"

namespace quern::storage {
namespace {

/// These operations write as many rows as they find and commit at once: only "more than one"
/// counts.
constexpr std::int64_t several = 2;

constexpr std::string_view forget_results =
    "UPDATE samples SET state = 'issued', v_min = NULL, v_max = NULL, segments = NULL, "
    "tokens_hash = NULL, source_hash = NULL, verdict_id = NULL, reward = NULL, step = NULL, "
    "incarnation = ?2, t_ns = ?3 ";

/// Live samples whose tokens will be needed again, of which some may be gone from the disk.
base::expected<std::vector<std::int64_t>> without_tokens(database& db,
                                                         const incarnation_request& request) {
  std::vector<std::int64_t> gone;
  if (!request.tokens_readable) return gone;
  QUERN_TRY(statement holders,
            db.prepare("SELECT id, tokens_hash FROM samples "
                       "WHERE state IN ('generated', 'evaluated', 'admitted') ORDER BY id"));
  while (true) {
    QUERN_TRY(const bool row, holders.next());
    if (!row) return gone;
    QUERN_TRY(const auto tokens, holders.maybe_hash(1));
    if (!request.tokens_readable(holders.integer(0), tokens.value_or(base::hash128{}))) {
      gone.push_back(holders.integer(0));
    }
  }
}

}  // namespace

base::status ledger::statements::prepare_turns(database& db) {
  const auto prepare = [&](statement& made, std::string_view what, std::string_view where) {
    auto result = db.prepare(fmt::format("{}{}", what, where));
    if (!result) return base::status(tl::make_unexpected(result.error()));
    made = std::move(*result);
    return base::status();
  };
  QUERN_CHECK(prepare(new_incarnation,
                      "INSERT INTO incarnations(id, from_version, reason, t_ns, opening) ",
                      "VALUES (?, ?, ?, ?, 1)"));
  QUERN_CHECK(
      prepare(close_incarnation, "UPDATE incarnations SET opening = NULL ", "WHERE id = ?"));
  QUERN_CHECK(prepare(reissue_live, forget_results,
                      "WHERE state IN ('generated', 'evaluated', 'admitted', 'consumed') "
                      "AND v_max > ?1"));
  QUERN_CHECK(prepare(reissue_trained, forget_results,
                      "WHERE state = 'trained' AND step > ?1 AND v_max > ?1"));
  QUERN_CHECK(prepare(reissue_one, forget_results, "WHERE id = ?1"));
  QUERN_CHECK(prepare(readmit, "UPDATE samples SET state = 'admitted', step = NULL, t_ns = ?3 ",
                      "WHERE state IN ('consumed', 'trained') AND step > ?1"));
  return {};
}

base::expected<incarnation_report> ledger::open_incarnation(const incarnation_request& request) {
  QUERN_CHECK(can_start_from(request.from_version));
  incarnation_report report{incarnation_ + 1, request.from_version, 0, 0, 0};
  const auto update = [&](statement& all, std::int64_t number) -> base::expected<std::int64_t> {
    QUERN_CHECK(all.bind(1, number).bind(2, report.incarnation).bind(3, db_.now_ns()).run());
    return db_.changes();
  };
  const base::status done = db_.atomically(several, [&]() -> base::status {
    QUERN_CHECK(sql_->new_incarnation.bind(1, report.incarnation)
                    .bind(2, request.from_version)
                    .bind(3, request.reason)
                    .bind(4, db_.now_ns())
                    .run());
    QUERN_TRY(const std::int64_t live, update(sql_->reissue_live, request.from_version));
    // Trained rows go back only when a checkpoint could not be read and an older one takes over.
    QUERN_TRY(const std::int64_t trained, update(sql_->reissue_trained, request.from_version));
    report.reissued = live + trained;
    QUERN_TRY(report.readmitted, update(sql_->readmit, request.from_version));
    QUERN_TRY(const auto gone, without_tokens(db_, request));
    for (const std::int64_t sample : gone) {
      QUERN_CHECK(update(sql_->reissue_one, sample));
    }
    report.unreadable = static_cast<std::int64_t>(gone.size());
    return sql_->close_incarnation.bind(1, report.incarnation).run();
  });
  QUERN_CHECK(done);
  QUERN_CHECK(db_.commit());
  incarnation_ = report.incarnation;
  version_ = report.from_version;
  return report;
}

base::status ledger::can_start_from(std::int64_t version) const {
  // Version 0 are the weights that the run began with; they need no checkpoint.
  if (version == 0) return {};
  QUERN_TRY(const auto known, checkpoints());
  for (const checkpoint_row& row : known) {
    if (row.version == version) return {};
  }
  return base::fail(
      base::errc::invalid_argument,
      "an incarnation from version {}, of which no checkpoint is recorded (newest: {})", version,
      known.empty() ? 0 : known.front().version);
}

base::expected<std::int64_t> ledger::record_checkpoint(const checkpoint_row& checkpoint) {
  QUERN_CHECK(need_incarnation());
  if (checkpoint.version > version_ || checkpoint.version < 0) {
    return base::fail(base::errc::internal, "a checkpoint of version {}, but weights are at {}",
                      checkpoint.version, version_);
  }
  QUERN_TRY(const auto known, checkpoints());
  if (!known.empty() && known.front().version >= checkpoint.version) {
    return base::fail(base::errc::already_exists,
                      "a checkpoint of version {} after one of version {} was recorded",
                      checkpoint.version, known.front().version);
  }
  std::int64_t trained = 0;
  const base::status done = db_.atomically(several, [&]() -> base::status {
    QUERN_CHECK(sql_->new_checkpoint.bind(1, checkpoint.version)
                    .bind(2, incarnation_)
                    .bind(3, checkpoint.path)
                    .bind(4, checkpoint.hash)
                    .bind(5, db_.now_ns())
                    .run());
    QUERN_CHECK(sql_->train.bind(1, db_.now_ns()).bind(2, checkpoint.version).run());
    trained = db_.changes();
    return {};
  });
  QUERN_CHECK(done);
  QUERN_CHECK(db_.commit());
  return trained;
}

base::expected<std::int64_t> ledger::stop() {
  QUERN_CHECK(need_incarnation());
  QUERN_TRY(const state_counts now, counts());
  if (const std::int64_t open = now.of(sample_state::consumed); open > 0) {
    return base::fail(
        base::errc::conflict,
        "{} samples are part of steps that no checkpoint holds: record one, then stop", open);
  }
  std::int64_t dropped = 0;
  const base::status done = db_.atomically(1, [&]() -> base::status {
    QUERN_TRY(statement all,
              db_.prepare("UPDATE samples SET state = 'dropped', drop_reason = 'stopped', t_ns = ? "
                          "WHERE state IN ('issued', 'generated', 'evaluated', 'admitted')"));
    QUERN_CHECK(all.bind(1, db_.now_ns()).run());
    dropped = db_.changes();
    return {};
  });
  QUERN_CHECK(done);
  QUERN_CHECK(db_.commit());
  return dropped;
}

}  // namespace quern::storage
