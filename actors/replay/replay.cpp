#include "actors/replay/replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "actors/measured_as.hpp"
#include "actors/replay/sample_blob.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/disk_room.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// As the ledger has them: by version.
std::vector<segment> segments_of(const generated_sample& sample) {
  std::vector<segment> parts;
  for (const wire_segment& part : sample.versions) {
    parts.push_back({part.first_token, part.version, part.weights});
  }
  return parts;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

void replay::generators(std::int64_t free_groups, weights_version installed) {
  free_groups_ = free_groups;
  installed_ = installed;
}

base::status replay::on_weights(epoch_id of, weights_version version, const base::hash128& hash) {
  if (of != epoch()) return {};
  return book_->know_weights(version, hash);
}

base::status replay::on_generated(const generated_sample& sample) {
  const auto known = samples_.find(sample.sample);
  if (known == samples_.end() || sample.epoch != epoch()) return {};
  if (auto whole = check_segments(sample.segments, sample.tokens, sample.log_probs); !whole)
    return base::in_context(fmt::format("sample {}", sample.sample), std::move(whole.error()));
  QUERN_TRY(const sample_news news,
            book_->generated(sample.epoch, sample.sample, policy_tokens(sample.segments),
                             segments_of(sample)));
  if (!news.counted) return {};
  QUERN_TRY(const base::hash128 hash, blobs_.put(encode_sample(sample)));
  QUERN_TRY(const storage::arrived arrived,
            ledger_->generated({sample.sample, sample.epoch, segments_of(sample), hash}));
  if (arrived.outcome != storage::arrival::accepted) {
    return fail(errc::internal, "sample {}: the ledger does not take tokens that were asked for",
                sample.sample);
  }
  known->second.made = sample;
  return apply(news.changes);
}

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
  if (!read) return fail(errc::internal, "sample {} was judged ok, but cannot be read", id);
  storage::variant variant;
  variant.key = {value.task, value.device_class, value.protocol};
  QUERN_TRY(variant.source_hash, base::parse_hash(value.source));
  variant.verdict_id = verdict_id;
  variant.speedup_e2 = value.speedup_e2;
  variant.version = version();
  variant.sample = id;
  variant.parents = groups_.at(sample.group).exemplars;
  QUERN_CHECK(archive_->record(variant, read->code));
  return {};
}

base::status replay::on_left_out(const step_done& step) {
  QUERN_TRY(const sample_news news, book_->left_out(step.epoch, step.batch));
  if (!news.counted) return {};
  QUERN_CHECK(book_->know_weights(step.weights.version, step.weights.hash));
  QUERN_CHECK(apply(news.changes));
  stepping_rewards_.clear();
  // Also where the run ends here: a resumed one must not take the batch up again.
  QUERN_CHECK(ledger_->commit());
  const std::string what = fmt::format(
      "the gradient of the step from version {} is not finite: its {} samples are "
      "dropped (non_finite), the weights stay as they were",
      step.weights.version, news.changes.size());
  if (++left_out_in_a_row_ < defaults::most_left_out) {
    base::log_warn("replay", "{}", what);
    return {};
  }
  return fail(
      errc::unavailable,
      "{}; these were {} batches in a row, the limit is {}: lower learner.learning_rate (it "
      "is {}) and quern resume, or start a new run from weights that are sound",
      what, left_out_in_a_row_, defaults::most_left_out, config_.learner.learning_rate);
}

base::status replay::on_step(const step_done& step) {
  if (step.left_out) return on_left_out(step);
  QUERN_TRY(const sample_news news,
            book_->stepped(step.epoch, step.weights.version - 1, step.weights.hash));
  if (!news.counted) return {};
  left_out_in_a_row_ = 0;
  std::vector<sample_id> used;
  std::vector<transition> others;
  for (const transition& change : news.changes) {
    if (change.to == sample_state::consumed) {
      used.push_back(change.sample);
    } else {
      others.push_back(change);
    }
  }
  QUERN_CHECK(ledger_->consume(used, step.weights.version));
  QUERN_CHECK(apply(others));
  for (const double reward : stepping_rewards_)
    smoothing_.add(reward, loss_.smoothing_block);
  stepping_rewards_.clear();
  for (const sample_id id : used)
    forget(id);
  return {};
}

base::status replay::on_checkpoint(const checkpoint_saved& saved) {
  if (!saving_ || saved.version != *saving_) return {};
  if (!saved.problem.empty()) {
    return fail(errc::io, "the learner could not write checkpoint v{}: {}", saved.version,
                saved.problem);
  }
  const std::string state = base::dump_pretty(states_to_save_[saved.version]);
  const auto fill = [&](const std::filesystem::path& folder) -> base::status {
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator(saved.folder, code)) {
      std::filesystem::rename(entry.path(), folder / entry.path().filename(), code);
      if (code) return fail(errc::io, "cannot move {}: {}", entry.path().string(), code.message());
    }
    if (code) return fail(errc::io, "cannot read {}: {}", saved.folder, code.message());
    return base::write_file_atomic(folder / "state.json", state);
  };
  QUERN_TRY(const storage::checkpoint written, checkpoints_.write(saved.version, fill));
  std::error_code ignored;
  std::filesystem::remove_all(saved.folder, ignored);
  storage::checkpoint_row row;
  row.version = written.version;
  row.path = std::filesystem::relative(written.folder, run_.paths().root).string();
  row.hash = written.hash;
  QUERN_CHECK(ledger_->record_checkpoint(row));
  QUERN_CHECK(checkpoints_.publish(written.version));
  states_to_save_.erase(saved.version);
  last_checkpoint_ = saved.version;
  saving_.reset();
  return {};
}

/// The sample, and its group with the last one.
void replay::forget(sample_id sample) {
  const group_id group = samples_.at(sample).group;
  samples_.erase(sample);
  const auto home = groups_.find(group);
  if (home == groups_.end()) return;
  const auto& members = home->second.samples;
  if (std::none_of(members.begin(), members.end(),
                   [&](sample_id each) { return samples_.contains(each); }))
    groups_.erase(home);
}

base::status replay::apply(const std::vector<transition>& changes) {
  std::vector<storage::admission> admitted;
  std::map<std::string, std::vector<sample_id>, std::less<>> dropped;
  for (const transition& change : changes) {
    const auto known = samples_.find(change.sample);
    if (change.to == sample_state::admitted) {
      admitted.push_back({change.sample, known->second.reward.value_or(0)});
    } else if (change.to == sample_state::dropped) {
      dropped[std::string(change.reason)].push_back(change.sample);
      if (known != samples_.end()) forget(known->first);
    }
  }
  if (!admitted.empty()) QUERN_CHECK(ledger_->admit(admitted));
  for (const auto& [reason, samples] : dropped) {
    QUERN_CHECK(ledger_->drop(samples, reason));
    if (const auto told = drops_.dropped(reason, std::ssize(samples)))
      base::log_info("replay", "{}", *told);
  }
  return {};
}

void replay::on_withdrawn(const jobs_withdrawn& news) {
  if (news.epoch != epoch()) return;
  for (const sample_id id : news.samples) {
    const auto known = samples_.find(id);
    if (known != samples_.end()) known->second.judging = false;
  }
}

void replay::generator_lost(const std::vector<sample_id>& samples) {
  for (const sample_id id : samples) {
    const auto known = samples_.find(id);
    if (known == samples_.end() || !known->second.made.tokens.empty()) continue;
    queue_generation(known->second.group);
  }
}

void replay::queue_generation(group_id group) {
  if (std::find(to_generate_.begin(), to_generate_.end(), group) == to_generate_.end()) {
    to_generate_.push_back(group);
  }
}

base::expected<replay_orders> replay::advance() {
  replay_orders orders;
  if (!draining_) {
    // Whatever frees a slot comes before issuing: nobody asks again before something has happened,
    // and when the last group under way was too old nothing ever does.
    QUERN_CHECK(order_batch(orders));
    QUERN_CHECK(issue_groups(orders));
    QUERN_CHECK(order_evaluations(orders));
  }
  order_checkpoint(orders);
  QUERN_CHECK(end_if_drained(orders));
  QUERN_CHECK(ledger_->commit());
  orders.committed_leases = std::exchange(leases_to_commit_, {});
  return orders;
}

std::size_t replay::room_for_evaluations() const {
  std::size_t out = scouts_.size() - held_scouts_.size();
  for (const auto& [id, sample] : samples_)
    out += sample.judging ? 1 : 0;
  return defaults::evaluation_queue - std::min(out, defaults::evaluation_queue);
}

base::status replay::order_evaluations(replay_orders& orders) {
  std::size_t room = room_for_evaluations();
  for (; room > 0 && !held_scouts_.empty(); --room) {
    orders.scout.push_back(std::move(held_scouts_.front()));
    held_scouts_.pop_front();
  }
  for (const sample_id id : book_->in_state(sample_state::generated)) {
    if (room == 0) break;
    sample_info& sample = samples_.at(id);
    if (sample.judging) continue;
    sample.judging = true;
    --room;
    const std::string& task = groups_.at(sample.group).task;
    QUERN_TRY(const auto best,
              archive_->best({task, prompter_->device_class(), measured_as(config_)}, version()));
    orders.judge.push_back({epoch(), id, task, sample.made.text, sample.attempt,
                            best ? best->speedup_e2.value_or(0) : 0, sample.group});
  }
  return {};
}

base::status replay::order_batch(replay_orders& orders) {
  if (!learner_ready_ || book_->under_way().has_value() || all_steps_done()) return {};
  QUERN_TRY(const batch_news news, book_->next_batch());
  QUERN_CHECK(apply(news.changes));
  if (!news.next) return {};
  QUERN_TRY(orders.train, make_batch(*news.next));
  learner_ready_ = false;
  return {};
}

void replay::order_checkpoint(replay_orders& orders) {
  if (saving_ || book_->under_way().has_value() || version() == last_checkpoint_) return;
  const bool due = version() - last_checkpoint_ >= config_.storage.checkpoint_every_steps;
  if (!due && !draining_ && !all_steps_done()) return;
  const std::string warning = storage::warning_of_room(
      run_.paths().root, bytes_at(checkpoints_.folder_of(last_checkpoint_)),
      storage::free_bytes(run_.paths().root));
  if (!warning.empty()) base::log_warn("checkpoint", "{}", warning);
  saving_ = version();
  states_to_save_[version()] = {{"quern_state", 1},
                                {"version", version()},
                                {"epoch", epoch()},
                                {"reward_statistics", policy::to_json(smoothing_)}};
  // Of this epoch: a rank of the one before may still be writing.
  const auto folder = run_.paths().root / "staging" / fmt::format("{}-{}", epoch(), version());
  orders.save = save_checkpoint{version(), folder.string(), epoch()};
}

base::status replay::end_if_drained(replay_orders& orders) {
  if (saving_ || book_->under_way().has_value() || version() != last_checkpoint_) return {};
  const bool finished = all_steps_done();
  if (!finished && !draining_) return {};
  const bool judging = std::any_of(samples_.begin(), samples_.end(),
                                   [](const auto& entry) { return entry.second.judging; });
  if (!finished && judging) return {};
  // Who asked for an end in the last step asked for one of all that would follow it, too.
  const ending how = draining_.value_or(ending::stop);
  if (finished || how == ending::stop) QUERN_CHECK(ledger_->stop());
  orders.end = drained{static_cast<std::uint8_t>(how), finished && !draining_};
  return {};
}

}  // namespace quern::actors
