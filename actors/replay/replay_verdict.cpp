// What becomes of a verdict: the ledger, the archive, the books.
#include <fmt/format.h>

#include "actors/replay/replay.hpp"
#include "actors/replay/search_start.hpp"
#include "base/log.hpp"
#include "env/prompt/completion.hpp"

namespace quern::actors {
namespace {

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

base::status replay::on_verdict(const sample_verdict& verdict) {
  if (verdict.lease != 0) leases_to_commit_.push_back(verdict.lease);
  if (verdict.sample >= first_scout) return on_scout(verdict);
  const auto known = samples_.find(verdict.sample);
  if (known == samples_.end() || verdict.epoch != epoch()) return {};
  sample_info& sample = known->second;
  QUERN_TRY(const env::verdict value, env::parse_verdict(verdict.json));
  storage::verdict_row row;
  row.sample = verdict.sample;
  row.epoch = verdict.epoch;
  row.attempt = verdict.attempt + 1;  // the ledger counts from 1, leases from 0
  row.counts = verdict.counts;
  row.task = value.task;
  if (auto hash = base::parse_hash(value.source)) row.source_hash = *hash;
  row.protocol = value.protocol;
  row.device_class = value.device_class;
  row.env = value.env;
  row.speedup_e2 = value.speedup_e2;
  row.confirmed = value.confirmed.value_or(false);
  row.json = verdict.json;
  QUERN_TRY(const storage::arrived arrived, ledger_->evaluated(row));
  if (arrived.outcome != storage::arrival::accepted) return {};
  sample.attempt = verdict.attempt + 1;
  if (!verdict.counts && !verdict.exhausted) return {};
  sample.judging = false;
  sample_news news;
  if (verdict.counts) {
    // One that control made, of a completion that cannot be read, tells nothing of evaluators.
    if (verdict.lease != 0) unjudged_.judged();
    if (search_) search_->ended(env::name_of(value.kind));
    sample.reward = reward_.of(value).value_or(0);
    sample.kind = value.kind;
    const auto& shown = groups_.at(sample.group).exemplars;
    QUERN_TRY(const exemplar_answer use, answer_to(value, shown, *archive_));
    judged_.push_back({verdict.sample, value.task, std::string(env::name_of(value.kind)),
                       value.speedup_e2.value_or(0), sample.reward, verdict.lease == 0, "", use});
    if (value.kind == env::verdict_kind::ok) {
      QUERN_CHECK(archive_candidate(value, verdict.sample, arrived.id));
    }
    QUERN_TRY(news, book_->evaluated(verdict.epoch, verdict.sample));
  } else {
    judged_.push_back({verdict.sample, value.task, std::string(env::name_of(value.kind)), 0,
                       std::nullopt, false, first_line(value.detail)});
    if (search_) search_->ended(env::name_of(value.kind));
    QUERN_CHECK(count_unjudged(value));
    QUERN_TRY(news, book_->dropped(verdict.epoch, verdict.sample, env::name_of(value.kind)));
  }
  return apply(news.changes);
}

base::status replay::count_unjudged(const env::verdict& value) {
  const bool evaluators = value.kind == env::verdict_kind::infra_error ||
                          value.kind == env::verdict_kind::invalid_reference;
  const auto said = [&] {
    return fmt::format("{}{}{}", env::name_of(value.kind), value.detail.empty() ? "" : ": ",
                       first_line(value.detail));
  };
  switch (unjudged_.unjudged(evaluators)) {
    case unjudged_streak::action::none:
      return {};
    case unjudged_streak::action::warn:
      base::log_warn("replay", "the last {} samples have no verdict; the newest: {}",
                     unjudged_.length(), said());
      return {};
    case unjudged_streak::action::give_up:
      break;
  }
  return base::fail(base::errc::unavailable,
                    "the last {} samples have no verdict, at most {} in a row may have none for "
                    "reasons of the evaluators; the newest: {}; mend it and quern resume",
                    unjudged_.length(), unjudged_.most(), said());
}

base::status replay::on_scout(const sample_verdict& verdict) {
  const auto known = scouts_.find(verdict.sample);
  if (known == scouts_.end() || (!verdict.counts && !verdict.exhausted)) return {};
  const auto [task, source] = std::move(known->second);
  scouts_.erase(known);
  if (auto waiting = scouting_.find(task);
      waiting != scouting_.end() && waiting->second.missing > 0) {
    --waiting->second.missing;
  }
  QUERN_TRY(const env::verdict value, env::parse_verdict(verdict.json));
  if (value.kind != env::verdict_kind::ok) return {};
  QUERN_TRY(const base::hash128 hash, base::parse_hash(value.source));
  storage::variant variant;
  variant.key = {value.task, value.device_class, value.protocol};
  variant.source_hash = hash;
  variant.speedup_e2 = value.speedup_e2;
  variant.version = version();
  QUERN_CHECK(archive_->record(variant, source));
  return {};
}

base::status replay::archive_candidate(const env::verdict& value, sample_id id,
                                       std::int64_t verdict_id) {
  const sample_info& sample = samples_.at(id);
  const auto read = env::parse_completion(sample.made.text);
  if (!read)
    return base::fail(base::errc::internal, "sample {} was judged ok, but cannot be read", id);
  storage::variant variant;
  variant.key = {value.task, value.device_class, value.protocol};
  QUERN_TRY(variant.source_hash, base::parse_hash(value.source));
  variant.verdict_id = verdict_id;
  variant.speedup_e2 = value.speedup_e2;
  variant.version = version();
  variant.sample = id;
  variant.parents = groups_.at(sample.group).exemplars;
  QUERN_TRY(const storage::recorded recorded, archive_->record(variant, read->code));
  if (search_ && recorded.fresh) search_->found(value.task, found_kernel_of(value, id));
  return {};
}

}  // namespace quern::actors
