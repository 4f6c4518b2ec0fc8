#include "storage/ledger.hpp"

#include <cmath>

#include "storage/ledger_sql.hpp"

namespace quern::storage {

base::status ledger::statements::prepare(database& db) {
  QUERN_TRY(where_is, db.prepare("SELECT state, v_max FROM samples WHERE id = ?"));
  // A reader has no use for the others, and where it reads an earlier schema there are no tables
  // that they could write.
  if (!db.writable()) return {};
  QUERN_TRY(new_group,
            db.prepare(
                "INSERT INTO groups(seq, task, exemplars, prompt_hash, template_hash, incarnation) "
                "VALUES (?, ?, ?, ?, ?, ?)"));
  QUERN_TRY(new_sample, db.prepare("INSERT INTO samples(id, grp, k, state, incarnation, t_ns) "
                                   "VALUES (?, ?, ?, 'issued', ?, ?)"));
  QUERN_TRY(
      generate,
      db.prepare("UPDATE samples SET state = 'generated', v_min = ?, v_max = ?, segments = ?, "
                 "tokens_hash = ?, t_ns = ? WHERE id = ?"));
  QUERN_TRY(judge, db.prepare("UPDATE samples SET state = 'evaluated', source_hash = ?, "
                              "verdict_id = ?, t_ns = ? WHERE id = ?"));
  QUERN_TRY(
      new_verdict,
      db.prepare("INSERT INTO verdicts(sample, incarnation, attempt, task, source_hash, protocol, "
                 "device_class, env, speedup_e2, confirmed, json) "
                 "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                 "ON CONFLICT(sample, incarnation, attempt) DO NOTHING"));
  QUERN_TRY(admit, db.prepare("UPDATE samples SET state = 'admitted', reward = ?, t_ns = ? "
                              "WHERE id = ?"));
  QUERN_TRY(consume, db.prepare("UPDATE samples SET state = 'consumed', step = ?, t_ns = ? "
                                "WHERE id = ?"));
  QUERN_TRY(drop, db.prepare("UPDATE samples SET state = 'dropped', drop_reason = ?, t_ns = ? "
                             "WHERE id = ?"));
  QUERN_TRY(new_checkpoint,
            db.prepare("INSERT INTO checkpoints(version, incarnation, path, hash, t_ns) "
                       "VALUES (?, ?, ?, ?, ?)"));
  QUERN_TRY(train, db.prepare("UPDATE samples SET state = 'trained', t_ns = ? "
                              "WHERE state = 'consumed' AND step <= ?"));
  return prepare_turns(db);
}

ledger::ledger(database& db) : db_(db), sql_(std::make_unique<statements>()) {}
ledger::~ledger() = default;

base::expected<std::unique_ptr<ledger>> ledger::open(database& db) {
  std::unique_ptr<ledger> opened(new ledger(db));
  QUERN_CHECK(opened->sql_->prepare(db));
  QUERN_CHECK(opened->load());
  return opened;
}

base::status ledger::load() {
  QUERN_TRY(const ledger_position here, position());
  incarnation_ = here.incarnation;
  version_ = here.version;
  next_seq_ = here.next_seq;
  QUERN_TRY(statement last, db_.prepare("SELECT coalesce(max(id), 0) + 1 FROM samples"));
  QUERN_TRY(const bool row, last.next());
  if (row) next_sample_ = last.integer(0);
  return {};
}

base::status ledger::need_incarnation() const {
  if (incarnation_ > 0) return {};
  return base::fail(base::errc::conflict,
                    "no incarnation is open: open one before anything is written");
}

base::expected<issued_group> ledger::issue(const group_spec& group) {
  QUERN_CHECK(need_incarnation());
  if (group.size < 1) {
    return base::fail(base::errc::invalid_argument, "a group has at least 1 sample, not {}",
                      group.size);
  }
  if (group.seq != next_seq_) {
    return base::fail(base::errc::conflict, "group {} was issued, but the next one is {}",
                      group.seq, next_seq_);
  }
  issued_group issued{0, next_sample_};
  const base::status done = db_.atomically(1 + group.size, [&]() -> base::status {
    QUERN_CHECK(sql_->new_group.bind(1, group.seq)
                    .bind(2, group.task)
                    .bind(3, ids_text(group.exemplars))
                    .bind(4, group.prompt_hash)
                    .bind(5, group.template_hash)
                    .bind(6, incarnation_)
                    .run());
    issued.group = db_.last_row_id();
    for (int k = 0; k < group.size; ++k) {
      QUERN_CHECK(sql_->new_sample.bind(1, issued.first_sample + k)
                      .bind(2, issued.group)
                      .bind(3, std::int64_t{k})
                      .bind(4, incarnation_)
                      .bind(5, db_.now_ns())
                      .run());
    }
    return {};
  });
  QUERN_CHECK(done);
  ++next_seq_;
  next_sample_ += group.size;
  return issued;
}

base::expected<arrival> ledger::judge_arrival(std::int64_t sample, std::int64_t incarnation,
                                              sample_state wanted) {
  QUERN_CHECK(need_incarnation());
  if (incarnation > incarnation_ || incarnation < 1) {
    return base::fail(base::errc::internal,
                      "sample {}: an answer of incarnation {}, but this is incarnation {}", sample,
                      incarnation, incarnation_);
  }
  if (incarnation < incarnation_) {
    ++ignored_.stale;
    return arrival::stale;
  }
  QUERN_TRY(const located found, locate(sample));
  if (found.state == wanted) return arrival::accepted;
  if (found.state > wanted) {
    ++ignored_.late;
    return arrival::late;
  }
  return base::fail(base::errc::conflict,
                    "sample {} is {}: an answer for {} cannot have been asked", sample,
                    to_string(found.state), to_string(wanted));
}

base::expected<ledger::located> ledger::locate(std::int64_t sample) {
  sql_->where_is.bind(1, sample);
  QUERN_TRY(const bool there, sql_->where_is.next());
  if (!there) return base::fail(base::errc::not_found, "there is no sample {}", sample);
  const auto state = parse_sample_state(sql_->where_is.text(0));
  const auto newest = sql_->where_is.maybe_integer(1);
  sql_->where_is.reset();
  if (!state) return tl::make_unexpected(state.error());
  return located{*state, newest};
}

base::expected<arrived> ledger::generated(const generation& tokens) {
  QUERN_TRY(const arrival outcome,
            judge_arrival(tokens.sample, tokens.incarnation, sample_state::issued));
  if (outcome != arrival::accepted) return arrived{outcome, 0};
  if (tokens.segments.empty() || tokens.segments.front().first_token != 0 ||
      tokens.segments.front().version < 0) {
    return base::fail(base::errc::invalid_argument,
                      "sample {}: its first segment must begin at token 0, with a version",
                      tokens.sample);
  }
  for (std::size_t i = 1; i < tokens.segments.size(); ++i) {
    const segment& before = tokens.segments[i - 1];
    const segment& here = tokens.segments[i];
    if (here.first_token <= before.first_token || here.version < before.version) {
      return base::fail(base::errc::invalid_argument,
                        "sample {}: segment {} (token {}, version {}) does not follow (token {}, "
                        "version {})",
                        tokens.sample, i, here.first_token, here.version, before.first_token,
                        before.version);
    }
  }
  const base::status done = db_.atomically(1, [&] {
    return sql_->generate.bind(1, tokens.segments.front().version)
        .bind(2, tokens.segments.back().version)
        .bind(3, segments_text(tokens.segments))
        .bind(4, tokens.tokens_hash)
        .bind(5, db_.now_ns())
        .bind(6, tokens.sample)
        .run();
  });
  QUERN_CHECK(done);
  return arrived{};
}

base::expected<arrived> ledger::evaluated(const verdict_row& verdict) {
  QUERN_TRY(const arrival outcome,
            judge_arrival(verdict.sample, verdict.incarnation, sample_state::generated));
  if (outcome != arrival::accepted) return arrived{outcome, 0};
  arrived result;
  const base::status done = db_.atomically(verdict.counts ? 2 : 1, [&]() -> base::status {
    QUERN_CHECK(sql_->new_verdict.bind(1, verdict.sample)
                    .bind(2, verdict.incarnation)
                    .bind(3, verdict.attempt)
                    .bind(4, verdict.task)
                    .bind(5, verdict.source_hash)
                    .bind(6, verdict.protocol)
                    .bind(7, verdict.device_class)
                    .bind(8, verdict.env)
                    .bind(9, verdict.speedup_e2)
                    .bind(10, std::int64_t{verdict.confirmed})
                    .bind(11, verdict.json)
                    .run());
    if (db_.changes() == 0) {
      result.outcome = arrival::late;
      return {};
    }
    result.id = db_.last_row_id();
    if (!verdict.counts) return {};
    return sql_->judge.bind(1, verdict.source_hash)
        .bind(2, result.id)
        .bind(3, db_.now_ns())
        .bind(4, verdict.sample)
        .run();
  });
  QUERN_CHECK(done);
  if (result.outcome == arrival::late) ++ignored_.late;
  return result;
}

base::status ledger::need_state(std::int64_t sample, sample_state wanted, std::int64_t step) {
  QUERN_TRY(const located found, locate(sample));
  if (found.state != wanted) {
    return base::fail(base::errc::conflict, "sample {} is {}, not {}", sample,
                      to_string(found.state), to_string(wanted));
  }
  if (step > 0 && found.newest.value_or(0) >= step) {
    return base::fail(
        base::errc::internal,
        "sample {} was made by version {}, newer than version {} that the step "
        "starts from: its age is negative; versions went back without a new incarnation",
        sample, *found.newest, step - 1);
  }
  return {};
}

base::status ledger::admit(std::span<const admission> samples) {
  QUERN_CHECK(need_incarnation());
  return db_.atomically(static_cast<std::int64_t>(samples.size()), [&]() -> base::status {
    for (const admission& each : samples) {
      if (!std::isfinite(each.reward)) {
        return base::fail(base::errc::invalid_argument, "sample {}: reward {} is not finite",
                          each.sample, each.reward);
      }
      QUERN_CHECK(need_state(each.sample, sample_state::evaluated));
      QUERN_CHECK(
          sql_->admit.bind(1, each.reward).bind(2, db_.now_ns()).bind(3, each.sample).run());
    }
    return {};
  });
}

base::status ledger::consume(std::span<const std::int64_t> samples, std::int64_t step) {
  QUERN_CHECK(need_incarnation());
  if (step != version_ + 1) {
    return base::fail(base::errc::internal, "a step to version {}, but the next version is {}",
                      step, version_ + 1);
  }
  if (samples.empty()) {
    return base::fail(base::errc::invalid_argument, "step {} uses no sample", step);
  }
  const base::status done =
      db_.atomically(static_cast<std::int64_t>(samples.size()), [&]() -> base::status {
        for (const std::int64_t sample : samples) {
          QUERN_CHECK(need_state(sample, sample_state::admitted, step));
          QUERN_CHECK(sql_->consume.bind(1, step).bind(2, db_.now_ns()).bind(3, sample).run());
        }
        return {};
      });
  QUERN_CHECK(done);
  version_ = step;
  return {};
}

base::status ledger::drop(std::span<const std::int64_t> samples, std::string_view reason) {
  QUERN_CHECK(need_incarnation());
  if (reason.empty()) {
    return base::fail(base::errc::invalid_argument, "a sample is dropped with a reason");
  }
  return db_.atomically(static_cast<std::int64_t>(samples.size()), [&]() -> base::status {
    for (const std::int64_t sample : samples) {
      QUERN_TRY(const located found, locate(sample));
      if (step_between(found.state, sample_state::dropped) != step_kind::forward) {
        return base::fail(base::errc::conflict, "sample {} is {} and cannot be dropped ({})",
                          sample, to_string(found.state), reason);
      }
      QUERN_CHECK(sql_->drop.bind(1, reason).bind(2, db_.now_ns()).bind(3, sample).run());
    }
    return {};
  });
}

base::status ledger::commit() {
  return db_.commit();
}

bool ledger::durable() const {
  return db_.durable();
}

}  // namespace quern::storage
