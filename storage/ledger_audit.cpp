// The audit: does the history of every sample lead to where its row says it is?
#include <unordered_map>

#include "storage/ledger_sql.hpp"

namespace quern::storage {
namespace {

tl::unexpected<base::error> broken(std::int64_t sample, std::string_view why) {
  return base::fail(base::errc::corrupt, "run.db: sample {}: {}", sample, why);
}

/// SQLite's own checks return rows of complaints, or "ok".
base::status run_check(database& db, std::string_view pragma) {
  QUERN_TRY(statement check, db.prepare(pragma));
  QUERN_TRY(const bool row, check.next());
  if (row && check.text(0) != "ok") {
    return base::fail(base::errc::corrupt, "run.db: {}: {}", pragma, check.text(0));
  }
  return {};
}

using state_map = std::unordered_map<std::int64_t, sample_state>;

/// Follows all events in order; returns where each sample ends.
base::expected<state_map> follow_events(database& db) {
  state_map states;
  std::int64_t incarnation = 0;
  bool opening = false;  // nothing but backward steps so far in this incarnation
  QUERN_TRY(statement events,
            db.prepare("SELECT sample, old, new, incarnation FROM events ORDER BY seq"));
  while (true) {
    QUERN_TRY(const bool row, events.next());
    if (!row) return states;
    const std::int64_t sample = events.integer(0);
    if (events.integer(3) < incarnation)
      return broken(sample, "an event of an earlier incarnation follows");
    if (events.integer(3) > incarnation) opening = true;
    incarnation = events.integer(3);
    QUERN_TRY(const sample_state to, parse_sample_state(events.text(2)));
    if (events.is_null(1)) {
      if (to != sample_state::issued || !states.emplace(sample, to).second) {
        return broken(sample, "born twice, or not issued");
      }
      opening = false;
      continue;
    }
    QUERN_TRY(const sample_state from, parse_sample_state(events.text(1)));
    const auto known = states.find(sample);
    if (known == states.end() || known->second != from) {
      return broken(sample, "an event starts where the sample was not");
    }
    const step_kind kind = step_between(from, to);
    if (kind == step_kind::illegal || (kind == step_kind::backward && !opening)) {
      return broken(sample, fmt::format("{} to {} was not legal", to_string(from), to_string(to)));
    }
    if (kind == step_kind::forward) opening = false;
    known->second = to;
  }
}

}  // namespace

base::status ledger::audit() const {
  QUERN_CHECK(run_check(db_, "PRAGMA integrity_check"));
  QUERN_CHECK(run_check(db_, "PRAGMA foreign_key_check"));
  QUERN_TRY(const state_map states, follow_events(db_));
  QUERN_TRY(const state_counts now, counts());
  if (!now.law_holds() || now.issued_ever != static_cast<std::int64_t>(states.size())) {
    return base::fail(base::errc::corrupt, "run.db: {} samples were issued, rows say otherwise",
                      now.issued_ever);
  }
  QUERN_TRY(const ledger_position here, position());
  const std::int64_t durable_version = here.checkpoint ? here.checkpoint->version : 0;
  QUERN_TRY(statement rows, db_.prepare("SELECT id, state, step FROM samples"));
  while (true) {
    QUERN_TRY(const bool row, rows.next());
    if (!row) return {};
    QUERN_TRY(const sample_state state, parse_sample_state(rows.text(1)));
    const auto known = states.find(rows.integer(0));
    if (known == states.end() || known->second != state) {
      return broken(rows.integer(0), "its events do not lead to its state");
    }
    const bool held = rows.maybe_integer(2).value_or(INT64_MAX) <= durable_version;
    if (state == sample_state::trained && !held) {
      return broken(rows.integer(0), "trained, but no checkpoint that survives holds its step");
    }
    if (state == sample_state::consumed && held) {
      return broken(rows.integer(0), "a checkpoint holds its step, but it is not trained");
    }
  }
}

}  // namespace quern::storage
