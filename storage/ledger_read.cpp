// The ledger's questions: counts, rows, where the run stands, and the audit.
#include <unordered_map>

#include "storage/ledger_sql.hpp"

namespace quern::storage {

base::expected<sample_row> read_sample(const statement& row) {
  sample_row sample;
  sample.id = row.integer(0);
  sample.group = row.integer(1);
  sample.k = static_cast<int>(row.integer(2));
  QUERN_TRY(sample.state, parse_sample_state(row.text(3)));
  sample.incarnation = row.integer(4);
  sample.v_min = row.maybe_integer(5);
  sample.v_max = row.maybe_integer(6);
  if (!row.is_null(7)) {
    QUERN_TRY(sample.segments, parse_segments(row.text(7)));
  }
  QUERN_TRY(sample.tokens_hash, row.maybe_hash(8));
  QUERN_TRY(sample.source_hash, row.maybe_hash(9));
  sample.verdict_id = row.maybe_integer(10);
  sample.reward = row.maybe_real(11);
  sample.step = row.maybe_integer(12);
  sample.drop_reason = row.text(13);
  return sample;
}

base::expected<stored_verdict> read_verdict(const statement& row) {
  stored_verdict found;
  found.id = row.integer(0);
  verdict_row& verdict = found.row;
  verdict.sample = row.integer(1);
  verdict.incarnation = row.integer(2);
  verdict.attempt = row.integer(3);
  verdict.task = row.text(4);
  QUERN_TRY(verdict.source_hash, row.maybe_hash(5));
  verdict.protocol = row.text(6);
  verdict.device_class = row.text(7);
  verdict.env = row.text(8);
  verdict.speedup_e2 = row.maybe_integer(9);
  verdict.confirmed = row.integer(10) != 0;
  verdict.json = row.text(11);
  verdict.counts = row.integer(12) != 0;
  return found;
}

namespace {

/// Calls `each` for every row.
template <class F>
base::status for_rows(statement& query, F each) {
  while (true) {
    QUERN_TRY(const bool row, query.next());
    if (!row) return {};
    QUERN_CHECK(each());
  }
}

base::expected<group_row> read_group(const statement& row) {
  group_row group;
  group.id = row.integer(0);
  group.seq = row.integer(1);
  group.task = row.text(2);
  QUERN_TRY(group.exemplars, parse_ids(row.text(3)));
  QUERN_TRY(const auto prompt, row.maybe_hash(4));
  QUERN_TRY(const auto form, row.maybe_hash(5));
  group.prompt_hash = prompt.value_or(base::hash128{});
  group.template_hash = form.value_or(base::hash128{});
  group.incarnation = row.integer(6);
  return group;
}

base::expected<std::vector<group_row>> read_groups(database& db, std::string_view which) {
  std::vector<group_row> groups;
  QUERN_TRY(statement heads,
            db.prepare(fmt::format("SELECT id, seq, task, exemplars, prompt_hash, template_hash, "
                                   "incarnation FROM groups WHERE {} ORDER BY seq",
                                   which)));
  const base::status read = for_rows(heads, [&]() -> base::status {
    QUERN_TRY(auto group, read_group(heads));
    groups.push_back(std::move(group));
    return {};
  });
  QUERN_CHECK(read);
  QUERN_TRY(statement members, db.prepare(fmt::format("SELECT {} FROM samples WHERE grp = ? "
                                                      "ORDER BY k",
                                                      sample_columns)));
  for (group_row& group : groups) {
    members.bind(1, group.id);
    const base::status filled = for_rows(members, [&]() -> base::status {
      QUERN_TRY(auto sample, read_sample(members));
      group.samples.push_back(std::move(sample));
      return {};
    });
    QUERN_CHECK(filled);
  }
  return groups;
}

base::expected<std::optional<std::int64_t>> ask_integer(database& db, std::string_view question) {
  QUERN_TRY(statement query, db.prepare(question));
  QUERN_TRY(const bool row, query.next());
  return row ? query.maybe_integer(0) : std::nullopt;
}

}  // namespace

base::expected<state_counts> ledger::counts() const {
  state_counts counts;
  QUERN_TRY(const auto born, ask_integer(db_, "SELECT count(*) FROM events WHERE old IS NULL"));
  counts.issued_ever = born.value_or(0);
  QUERN_TRY(statement query, db_.prepare("SELECT state, count(*) FROM samples GROUP BY state"));
  const base::status read = for_rows(query, [&]() -> base::status {
    QUERN_TRY(const sample_state state, parse_sample_state(query.text(0)));
    counts.by_state[static_cast<std::size_t>(state)] = query.integer(1);
    return {};
  });
  QUERN_CHECK(read);
  return counts;
}

base::expected<ledger_position> ledger::position() const {
  ledger_position here;
  QUERN_TRY(statement last, db_.prepare("SELECT id, from_version FROM incarnations "
                                        "ORDER BY id DESC LIMIT 1"));
  QUERN_TRY(const bool begun, last.next());
  if (begun) {
    here.incarnation = last.integer(0);
    here.version = last.integer(1);
  }
  QUERN_TRY(const auto used,
            ask_integer(db_, "SELECT max(step) FROM samples WHERE state = 'consumed'"));
  QUERN_TRY(const auto kept,
            ask_integer(db_, "SELECT max(step) FROM samples WHERE state = 'trained'"));
  here.version = std::max({here.version, used.value_or(0), kept.value_or(0)});
  QUERN_TRY(auto known, checkpoints());
  if (!known.empty()) here.checkpoint = std::move(known.front());
  QUERN_TRY(const auto seq, ask_integer(db_, "SELECT max(seq) FROM groups"));
  here.next_seq = seq.value_or(-1) + 1;
  return here;
}

base::expected<sample_row> ledger::sample(std::int64_t id) const {
  QUERN_TRY(statement query,
            db_.prepare(fmt::format("SELECT {} FROM samples WHERE id = ?", sample_columns)));
  QUERN_TRY(const bool row, query.bind(1, id).next());
  if (!row) return base::fail(base::errc::not_found, "there is no sample {}", id);
  return read_sample(query);
}

base::expected<group_row> ledger::group(std::int64_t id) const {
  QUERN_TRY(auto found, read_groups(db_, fmt::format("id = {}", id)));
  if (found.empty()) return base::fail(base::errc::not_found, "there is no group {}", id);
  return std::move(found.front());
}

base::expected<std::vector<sample_row>> ledger::in_state(sample_state state) const {
  QUERN_TRY(statement query, db_.prepare(fmt::format("SELECT {} FROM samples WHERE state = ? "
                                                     "ORDER BY id",
                                                     sample_columns)));
  query.bind(1, to_string(state));
  std::vector<sample_row> samples;
  const base::status read = for_rows(query, [&]() -> base::status {
    QUERN_TRY(auto row, read_sample(query));
    samples.push_back(std::move(row));
    return {};
  });
  QUERN_CHECK(read);
  return samples;
}

base::expected<std::vector<group_row>> ledger::live_groups() const {
  return read_groups(db_,
                     "id IN (SELECT grp FROM samples WHERE state IN "
                     "('issued', 'generated', 'evaluated', 'admitted', 'consumed'))");
}

base::expected<age_counts> ledger::ages() const {
  age_counts ages;
  QUERN_TRY(statement query,
            db_.prepare("SELECT step - 1 - v_min, count(*), sum(v_min < v_max) FROM samples "
                        "WHERE state IN ('consumed', 'trained') GROUP BY 1"));
  const base::status read = for_rows(query, [&]() -> base::status {
    ages.by_age[query.integer(0)] = query.integer(1);
    ages.mixed += query.integer(2);
    return {};
  });
  QUERN_CHECK(read);
  return ages;
}

base::expected<std::map<std::string, std::int64_t>> ledger::drop_reasons() const {
  std::map<std::string, std::int64_t> reasons;
  QUERN_TRY(statement query, db_.prepare("SELECT drop_reason, count(*) FROM samples "
                                         "WHERE state = 'dropped' GROUP BY 1"));
  const base::status read = for_rows(query, [&]() -> base::status {
    reasons[query.text(0)] = query.integer(1);
    return {};
  });
  QUERN_CHECK(read);
  return reasons;
}

base::expected<std::vector<event_row>> ledger::events_of(std::int64_t sample, std::int64_t first,
                                                         std::int64_t last) const {
  std::vector<event_row> events;
  QUERN_TRY(statement query, db_.prepare("SELECT seq, old, new, incarnation, t_ns FROM events "
                                         "WHERE sample = ? AND seq >= ? AND seq <= ? "
                                         "ORDER BY seq"));
  query.bind(1, sample).bind(2, first).bind(3, last);
  const base::status read = for_rows(query, [&]() -> base::status {
    event_row event{query.integer(0),     sample,           std::nullopt,
                    sample_state::issued, query.integer(3), query.integer(4)};
    if (!query.is_null(1)) {
      QUERN_TRY(event.from, parse_sample_state(query.text(1)));
    }
    QUERN_TRY(event.to, parse_sample_state(query.text(2)));
    events.push_back(event);
    return {};
  });
  QUERN_CHECK(read);
  return events;
}

base::expected<std::vector<stored_verdict>> ledger::verdicts_of(std::int64_t sample) const {
  std::vector<stored_verdict> verdicts;
  QUERN_TRY(statement query,
            db_.prepare(fmt::format("SELECT {}{} FROM verdicts WHERE sample = ? ORDER BY id",
                                    verdict_columns, verdict_counts)));
  query.bind(1, sample);
  const base::status read = for_rows(query, [&]() -> base::status {
    QUERN_TRY(auto verdict, read_verdict(query));
    verdicts.push_back(std::move(verdict));
    return {};
  });
  QUERN_CHECK(read);
  return verdicts;
}

base::expected<stored_verdict> ledger::verdict(std::int64_t id) const {
  QUERN_TRY(statement query, db_.prepare(fmt::format("SELECT {}{} FROM verdicts WHERE id = ?",
                                                     verdict_columns, verdict_counts)));
  QUERN_TRY(const bool row, query.bind(1, id).next());
  if (!row) return base::fail(base::errc::not_found, "there is no verdict {}", id);
  return read_verdict(query);
}

base::expected<std::int64_t> ledger::judged() const {
  QUERN_TRY(const auto count,
            ask_integer(db_, "SELECT count(*) FROM samples WHERE verdict_id IS NOT NULL"));
  return count.value_or(0);
}

base::status ledger::visit_judged(
    const std::function<base::status(const stored_verdict&)>& visit) const {
  QUERN_TRY(statement query, db_.prepare(fmt::format(
                                 "SELECT {}, 1 FROM verdicts WHERE id IN (SELECT verdict_id FROM "
                                 "samples WHERE verdict_id IS NOT NULL) ORDER BY id",
                                 verdict_columns)));
  return for_rows(query, [&]() -> base::status {
    QUERN_TRY(const auto verdict, read_verdict(query));
    return visit(verdict);
  });
}

base::expected<std::vector<checkpoint_row>> ledger::checkpoints() const {
  std::vector<checkpoint_row> rows;
  QUERN_TRY(statement query, db_.prepare(fmt::format("SELECT version, incarnation, path, hash "
                                                     "FROM checkpoints AS c WHERE {} "
                                                     "ORDER BY version DESC, incarnation DESC",
                                                     survives)));
  const base::status read = for_rows(query, [&]() -> base::status {
    QUERN_TRY(const auto hash, query.maybe_hash(3));
    rows.push_back(
        {query.integer(0), query.integer(1), query.text(2), hash.value_or(base::hash128{})});
    return {};
  });
  QUERN_CHECK(read);
  return rows;
}

}  // namespace quern::storage
