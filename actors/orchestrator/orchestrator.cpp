#include "actors/orchestrator/orchestrator.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "actors/config/learner_setup.hpp"
#include "actors/decide/mutation.hpp"
#include "actors/defaults.hpp"
#include "actors/measured_as.hpp"
#include "actors/orchestrator/sample_blob.hpp"
#include "actors/orchestrator/search_start.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "env/prompt/completion.hpp"

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

/// Seed variants are ordered for this many groups ahead, so that their timing hides behind
/// generation.
constexpr std::int64_t seed_variants_ahead = 6;

}  // namespace

// ---- beginning and recovering ----

orchestrator::orchestrator(const run_config& config, storage::run_directory& run,
                           const task_book& tasks)
    : config_(config),
      run_(run),
      tasks_(tasks),
      blobs_(run.paths().blobs()),
      checkpoints_(run, config.storage.keep_checkpoints),
      loss_(loss_parameters_of(config)) {}

base::expected<std::unique_ptr<orchestrator>> orchestrator::open(const run_config& config,
                                                                 storage::run_directory& run,
                                                                 const task_book& tasks,
                                                                 std::string device_class,
                                                                 bool deterministic) {
  std::unique_ptr<orchestrator> made(new orchestrator(config, run, tasks));
  made->deterministic_ = deterministic;
  QUERN_TRY(made->reward_, env::find_reward(config.algorithm.reward));
  QUERN_TRY(made->db_,
            storage::database::open(run.paths().database(), storage::database::access::write));
  QUERN_TRY(made->ledger_, storage::ledger::open(*made->db_));
  storage::archive_options archive;
  archive.edges =
      storage::equal_buckets(static_cast<std::int64_t>(config.replay.bucket_width * 100),
                             static_cast<int>(config.replay.buckets));
  QUERN_TRY(made->archive_, storage::archive::open(*made->db_, made->blobs_, archive));
  QUERN_TRY(made->prompter_, prompter::make(config, std::move(device_class)));
  QUERN_CHECK(made->prompter_->check(tasks.tasks()));
  if (config.policy.engine == "recorded") {
    QUERN_TRY(made->recorded_, keep_recorded(config, run.paths().root, tasks.tasks()));
  }
  std::vector<curriculum_entry> curriculum;
  for (const book_task& task : tasks.tasks()) {
    if (!task.held_out) curriculum.push_back({task.id, false, 1});
  }
  QUERN_TRY(made->sampler_,
            task_sampler::make(static_cast<std::uint64_t>(config.run.seed), std::move(curriculum)));
  QUERN_TRY(const storage::ledger_position position, made->ledger_->position());
  QUERN_CHECK(made->begin_incarnation(position.incarnation == 0 ? "start" : "resume"));
  return made;
}

base::status orchestrator::begin_incarnation(const std::string& reason) {
  weights_version version = 0;
  QUERN_TRY(const std::filesystem::path first_model, model_folder(config_));
  start_.model = first_model.string();
  start_.reference = start_.model;
  start_.optimizer.clear();
  smoothing_ = {};
  QUERN_TRY(const auto newest, checkpoints_.newest(*ledger_));
  if (newest) {
    version = newest->version;
    start_.model = newest->model;
    start_.optimizer = newest->optimizer;
    QUERN_TRY(smoothing_, policy::reward_statistics_from_json(newest->reward_statistics));
  }
  QUERN_CHECK(checkpoints_.begin(version));
  storage::incarnation_request request;
  request.reason = reason;
  request.from_version = version;
  request.tokens_readable = [this](std::int64_t, const base::hash128& tokens) {
    return blobs_.readable(tokens);
  };
  QUERN_TRY(const storage::incarnation_report report, ledger_->open_incarnation(request));
  QUERN_CHECK(run_.lock().note_incarnation(report.incarnation));
  if (report.incarnation > 1) {
    QUERN_CHECK(archive_->rebuild());
    base::log_info(
        "orchestrator",
        "incarnation {} from version {}: {} samples back to admitted, {} to be made again, {} "
        "with unreadable tokens",
        report.incarnation, version, report.readmitted, report.reissued, report.unreadable);
  }
  start_.incarnation = report.incarnation;
  if (mutated(mutation::incarnation_not_bumped) && report.incarnation > 1) --start_.incarnation;
  start_.version = version;
  QUERN_TRY(const storage::ledger_position position, ledger_->position());
  sample_book_options options;
  options.staleness.max_age = config_.actors.staleness;
  options.staleness.groups_per_step = config_.algorithm.groups_per_step;
  QUERN_TRY(options.staleness.policy, parse_staleness_policy(config_.actors.stale_groups));
  options.fixed_policy = is_search(config_);
  options.deterministic = deterministic_;
  if (is_search(config_)) {
    QUERN_TRY(search_, search_so_far(config_, *ledger_, *archive_, sampler_->pass_length()));
  }
  QUERN_TRY(book_, sample_book::make(start_.incarnation, version, options, position.next_seq));
  samples_.clear();
  seed_variants_.clear();
  to_generate_.clear();
  stepping_rewards_.clear();
  leases_to_commit_.clear();
  free_groups_ = 0;
  installed_ = version;
  learner_ready_ = false;
  QUERN_TRY(const auto rows, groups_to_restore());
  for (const storage::group_row& row : rows)
    QUERN_CHECK(restore_group(row));
  QUERN_TRY(const auto changes, book_->restored());
  QUERN_CHECK(apply(changes));
  for (const sample_id id : book_->in_state(sample_state::issued)) {
    queue_generation(samples_.at(id).group);
  }
  return ledger_->commit();
}

/// The groups with live samples. Those whose prompt cannot be read are dropped: no token of theirs
/// can be made again, and the learner is shown prompt and answer together.
base::expected<std::vector<storage::group_row>> orchestrator::groups_to_restore() {
  QUERN_TRY(auto rows, ledger_->live_groups());
  std::vector<storage::group_row> kept;
  for (storage::group_row& row : rows) {
    const auto prompt = blobs_.get(row.prompt_hash);
    if (prompt) {
      kept.push_back(std::move(row));
      continue;
    }
    // A prompt that the system does not read now is not lost.
    const base::errc code = prompt.error().code;
    if (code == base::errc::io || code == base::errc::exhausted)
      return base::in_context(fmt::format("the prompt of group {}", row.id), prompt.error());
    std::vector<sample_id> lost;
    for (const storage::sample_row& sample : row.samples)
      if (storage::is_live(sample.state)) lost.push_back(sample.id);
    base::log_warn("orchestrator",
                   "group {} is dropped with {} samples, since its prompt is lost: {}", row.id,
                   lost.size(), prompt.error().message);
    QUERN_CHECK(ledger_->drop(lost, drop_reason::prompt_lost));
    drops_.dropped(drop_reason::prompt_lost, std::ssize(lost));
  }
  return kept;
}

base::status orchestrator::restore_group(const storage::group_row& row) {
  live_group group{row.task, {}, row.exemplars, {}};
  QUERN_TRY(group.prompt, blobs_.get(row.prompt_hash));
  for (const storage::sample_row& sample : row.samples) {
    live_sample info;
    info.group = row.id;
    // A dropped sample keeps its row: it may come from weights that a rollback took away, and
    // nothing reads its tokens again.
    if (sample.tokens_hash && storage::is_live(sample.state)) {
      QUERN_TRY(const std::string blob, blobs_.get(*sample.tokens_hash));
      QUERN_TRY(info.made, decode_sample(blob));
      for (const storage::segment& part : sample.segments)
        info.made.versions.push_back({part.first_token, part.version, part.weights});
    }
    QUERN_TRY(const auto verdicts, ledger_->verdicts_of(sample.id));
    for (const auto& verdict : verdicts) {
      if (verdict.row.incarnation == incarnation()) {
        info.attempt = std::max(info.attempt, static_cast<std::int32_t>(verdict.row.attempt));
      }
    }
    if (sample.state == sample_state::evaluated || sample.state == sample_state::admitted) {
      QUERN_TRY(const auto verdict, ledger_->verdict(sample.verdict_id.value_or(0)));
      QUERN_TRY(const env::verdict value, env::parse_verdict(verdict.row.json));
      info.reward = reward_.of(value).value_or(0);
      info.kind = value.kind;
    }
    group.samples.push_back(sample.id);
    samples_.add(sample.id, std::move(info));
  }
  samples_.restore(row.id, std::move(group));
  newest_group_ = std::max(newest_group_, row.id);
  return book_->restore(row);
}

base::status orchestrator::learner_lost() {
  base::log_warn("orchestrator", "the learner is gone: going on from the last checkpoint");
  QUERN_CHECK(ledger_->commit());
  return begin_incarnation("learner lost");
}

base::status orchestrator::close() {
  QUERN_CHECK(ledger_->commit());
  archive_.reset();
  ledger_.reset();
  // Everything is durable: one file in place of two is a convenience, and no reason to fail.
  if (auto folded = db_->fold(); !folded) base::log_warn("ledger", "{}", folded.error().message);
  return {};
}

// ---- events and orders ----

void orchestrator::generators(std::int64_t free_groups, weights_version installed) {
  free_groups_ = free_groups;
  installed_ = installed;
}

base::status orchestrator::on_weights(incarnation_id of, weights_version version,
                                      const base::hash128& hash) {
  if (of != incarnation()) return {};
  return book_->know_weights(version, hash);
}

base::status orchestrator::on_generated(const generated_sample& sample) {
  live_sample* const known = samples_.find(sample.sample);
  const bool old =
      sample.incarnation != incarnation() && !mutated(mutation::old_incarnation_accepted);
  if (known == nullptr || old) return {};
  if (auto whole = check_segments(sample.segments, sample.tokens, sample.log_probs); !whole)
    return base::in_context(fmt::format("sample {}", sample.sample), std::move(whole.error()));
  QUERN_TRY(const sample_news news,
            book_->generated(sample.incarnation, sample.sample, policy_tokens(sample.segments),
                             segments_of(sample)));
  if (!news.counted) return {};
  QUERN_TRY(const base::hash128 hash, blobs_.put(encode_sample(sample)));
  QUERN_TRY(const storage::arrived arrived,
            ledger_->generated({sample.sample, sample.incarnation, segments_of(sample), hash}));
  if (arrived.outcome != storage::arrival::accepted) {
    return fail(errc::internal, "sample {}: the ledger does not take tokens that were asked for",
                sample.sample);
  }
  known->made = sample;
  return apply(news.changes);
}

base::status orchestrator::on_left_out(const step_done& step) {
  QUERN_TRY(const sample_news news, book_->left_out(step.incarnation, step.batch));
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
    base::log_warn("orchestrator", "{}", what);
    return {};
  }
  return fail(
      errc::unavailable,
      "{}; these were {} batches in a row, the limit is {}: lower learner.learning_rate (it "
      "is {}) and quern resume, or start a new run from weights that are sound",
      what, left_out_in_a_row_, defaults::most_left_out, config_.learner.learning_rate);
}

base::status orchestrator::on_step(const step_done& step) {
  if (step.left_out) return on_left_out(step);
  QUERN_TRY(const sample_news news,
            book_->stepped(step.incarnation, step.weights.version - 1, step.weights.hash));
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
    samples_.forget(id);
  return {};
}

base::status orchestrator::on_checkpoint(const checkpoint_saved& saved) {
  return checkpoints_.saved(saved, *ledger_);
}

base::status orchestrator::apply(const std::vector<transition>& changes) {
  std::vector<storage::admission> admitted;
  std::map<std::string, std::vector<sample_id>, std::less<>> dropped;
  for (const transition& change : changes) {
    if (change.to == sample_state::admitted) {
      admitted.push_back({change.sample, samples_.at(change.sample).reward.value_or(0)});
    } else if (change.to == sample_state::dropped) {
      dropped[std::string(change.reason)].push_back(change.sample);
      samples_.forget(change.sample);
    }
  }
  if (!admitted.empty()) QUERN_CHECK(ledger_->admit(admitted));
  for (const auto& [reason, samples] : dropped) {
    QUERN_CHECK(ledger_->drop(samples, reason));
    // Where nobody learns that is how every sample ends.
    if (reason == drop_reason::no_learner) continue;
    if (const auto told = drops_.dropped(reason, std::ssize(samples)))
      base::log_info("orchestrator", "{}", *told);
  }
  return {};
}

void orchestrator::on_withdrawn(const jobs_withdrawn& news) {
  if (news.incarnation != incarnation() || mutated(mutation::withdrawn_awaited)) return;
  for (const sample_id id : news.samples)
    if (live_sample* known = samples_.find(id)) known->judging = false;
}

void orchestrator::generator_lost(const std::vector<sample_id>& samples) {
  for (const sample_id id : samples) {
    const live_sample* known = samples_.find(id);
    if (known == nullptr || !known->made.tokens.empty()) continue;
    queue_generation(known->group);
  }
}

void orchestrator::queue_generation(group_id group) {
  if (std::find(to_generate_.begin(), to_generate_.end(), group) == to_generate_.end()) {
    to_generate_.push_back(group);
  }
}

base::expected<orchestrator_orders> orchestrator::advance() {
  orchestrator_orders orders;
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

std::size_t orchestrator::room_for_evaluations() const {
  const std::size_t out = seed_variants_.out() + samples_.judging();
  return defaults::evaluation_queue - std::min(out, defaults::evaluation_queue);
}

base::status orchestrator::order_evaluations(orchestrator_orders& orders) {
  std::size_t room = room_for_evaluations();
  orders.seed_variant = seed_variants_.take(room);
  room -= orders.seed_variant.size();
  for (const sample_id id : book_->in_state(sample_state::generated)) {
    if (room == 0) break;
    live_sample& sample = samples_.at(id);
    if (sample.judging) continue;
    sample.judging = true;
    --room;
    const std::string& task = samples_.group_of(sample).task;
    QUERN_TRY(const auto best,
              archive_->best({task, prompter_->device_class(), measured_as(config_)}, version()));
    orders.judge.push_back({incarnation(), id, task, sample.made.text, sample.attempt,
                            best ? best->speedup_e2.value_or(0) : 0, sample.group});
  }
  return {};
}

base::status orchestrator::order_batch(orchestrator_orders& orders) {
  if (!learner_ready_ || book_->under_way().has_value() || goal_reached()) return {};
  QUERN_TRY(const batch_news news, book_->next_batch());
  QUERN_CHECK(apply(news.changes));
  if (!news.next) return {};
  QUERN_TRY(orders.train, make_batch(*news.next));
  learner_ready_ = false;
  return {};
}

void orchestrator::order_checkpoint(orchestrator_orders& orders) {
  if (checkpoints_.saving() || book_->under_way().has_value()) return;
  const std::int64_t unsaved = version() - checkpoints_.last();
  const bool due = unsaved >= config_.storage.checkpoint_every_steps;
  if (unsaved == 0 || (!due && !draining_ && !goal_reached())) return;
  orders.save = checkpoints_.order(incarnation(), version(), policy::to_json(smoothing_));
}

base::status orchestrator::end_if_drained(orchestrator_orders& orders) {
  if (checkpoints_.saving() || book_->under_way().has_value() || version() != checkpoints_.last())
    return {};
  const bool finished = goal_reached();
  if (!finished && !draining_) return {};
  if (!finished && samples_.judging() > 0) return {};
  // Who asked for an end in the last step asked for one of all that would follow it, too.
  const ending how = draining_.value_or(ending::stop);
  if (finished || how == ending::stop) QUERN_CHECK(ledger_->stop());
  orders.end = drained{static_cast<std::uint8_t>(how), finished && !draining_};
  return {};
}

// ---- verdicts ----

base::status orchestrator::on_verdict(const sample_verdict& verdict) {
  if (verdict.lease != 0) leases_to_commit_.push_back(verdict.lease);
  if (verdict.sample >= first_seed_variant) return on_seed_variant(verdict);
  live_sample* const known = samples_.find(verdict.sample);
  if (known == nullptr || verdict.incarnation != incarnation()) return {};
  live_sample& sample = *known;
  QUERN_TRY(const env::verdict value, env::parse_verdict(verdict.json));
  storage::verdict_row row;
  row.sample = verdict.sample;
  row.incarnation = verdict.incarnation;
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
    const auto& shown = samples_.group_of(sample).exemplars;
    QUERN_TRY(const exemplar_answer use, answer_to(value, shown, *archive_));
    judged_.push_back({verdict.sample, value.task, std::string(env::name_of(value.kind)),
                       value.speedup_e2.value_or(0), sample.reward, verdict.lease == 0, "", use});
    if (value.kind == env::verdict_kind::ok) {
      QUERN_CHECK(archive_candidate(value, verdict.sample, arrived.id));
    }
    QUERN_TRY(news, book_->evaluated(verdict.incarnation, verdict.sample));
  } else {
    judged_.push_back({verdict.sample, value.task, std::string(env::name_of(value.kind)), 0,
                       std::nullopt, false, first_line(value.detail)});
    if (search_) search_->ended(env::name_of(value.kind));
    QUERN_CHECK(count_unjudged(value));
    QUERN_TRY(news, book_->dropped(verdict.incarnation, verdict.sample, env::name_of(value.kind)));
  }
  return apply(news.changes);
}

base::status orchestrator::count_unjudged(const env::verdict& value) {
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
      base::log_warn("orchestrator", "the last {} samples have no verdict; the newest: {}",
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

base::status orchestrator::on_seed_variant(const sample_verdict& verdict) {
  const auto seed_variant = seed_variants_.answered(verdict);
  if (!seed_variant) return {};
  QUERN_TRY(const env::verdict value, env::parse_verdict(verdict.json));
  if (value.kind != env::verdict_kind::ok) return {};
  QUERN_TRY(const base::hash128 hash, base::parse_hash(value.source));
  storage::variant variant;
  variant.key = {value.task, value.device_class, value.protocol};
  variant.source_hash = hash;
  variant.speedup_e2 = value.speedup_e2;
  variant.version = version();
  QUERN_CHECK(archive_->record(variant, seed_variant->source));
  return {};
}

base::status orchestrator::archive_candidate(const env::verdict& value, sample_id id,
                                             std::int64_t verdict_id) {
  const live_sample& sample = samples_.at(id);
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
  variant.parents = samples_.group_of(sample).exemplars;
  QUERN_TRY(const storage::recorded recorded, archive_->record(variant, read->code));
  if (search_ && recorded.fresh) search_->found(value.task, found_kernel_of(value, id));
  return {};
}

// ---- groups and batches ----

bool orchestrator::shows_exemplars(std::int64_t sequence) const {
  return sequence >= config_.algorithm.groups_per_step && prompter_->wants_exemplars(sequence);
}

base::expected<generate_group> orchestrator::order_of(const live_group& group, group_id id,
                                                      std::vector<sample_id> samples) const {
  generate_group order;
  order.incarnation = incarnation();
  order.group = id;
  order.samples = std::move(samples);
  order.prompt = group.prompt;
  order.seed = config_.run.seed;
  order.max_tokens = static_cast<std::int32_t>(config_.policy.max_new_tokens);
  order.temperature = config_.policy.temperature;
  if (!recorded_) return order;
  // By their places in the whole group: a part of it that is made again gets the same texts.
  std::vector<std::size_t> members;
  for (const sample_id sample : order.samples) {
    const auto place = std::find(group.samples.begin(), group.samples.end(), sample);
    members.push_back(static_cast<std::size_t>(place - group.samples.begin()));
  }
  QUERN_TRY(order.recorded, recorded_->choose({group.task, group.prompt, id}, members));
  return order;
}

base::status orchestrator::issue_groups(orchestrator_orders& orders) {
  QUERN_TRY(const auto unparked, book_->unpark(installed_));
  for (const auto& [group, permit] : unparked)
    queue_generation(group);
  while (free_groups_ > 0 && !to_generate_.empty()) {
    const group_id id = to_generate_.front();
    to_generate_.pop_front();
    const live_group* group = samples_.find_group(id);
    if (group == nullptr) continue;
    const std::vector<sample_id> waiting = book_->in_state(sample_state::issued);
    std::vector<sample_id> missing;
    for (const sample_id sample : group->samples) {
      if (std::find(waiting.begin(), waiting.end(), sample) != waiting.end()) {
        missing.push_back(sample);
      }
    }
    if (missing.empty()) continue;
    QUERN_TRY(generate_group order, order_of(*group, id, std::move(missing)));
    orders.generate.push_back(std::move(order));
    --free_groups_;
  }
  bool more = true;
  held_up_ = role_wait::unknown;
  while (more && free_groups_ > 0) {
    QUERN_TRY(more, issue_one(orders));
  }
  return {};
}

bool orchestrator::has_exemplars(const book_task& task) const {
  const storage::score_buckets* buckets =
      archive_->buckets({task.id, prompter_->device_class(), measured_as(config_)});
  return buckets != nullptr && buckets->size() >= prompter_->exemplars_shown();
}

void orchestrator::draw_seed_variants(const book_task& task, group_id turn) {
  if (seed_variants_.drawn(task.id) || has_exemplars(task)) return;
  seed_variants_.draw(task.id, prompter_->seed_variants(task), incarnation(), turn);
}

bool orchestrator::goal_reached() const {
  return search_ ? search_->over(book_->unjudged()) : version() >= config_.learner.steps;
}

std::int64_t orchestrator::next_group_size() const {
  if (search_) return search_->next_group(book_->unjudged());
  const std::int64_t needed =
      (config_.learner.steps - version()) * config_.algorithm.groups_per_step;
  return book_->window().charged() >= needed ? 0 : config_.algorithm.group_size;
}

base::expected<bool> orchestrator::issue_one(orchestrator_orders& orders) {
  const std::int64_t size = next_group_size();
  const auto held_up = [this](role_wait by) {
    held_up_ = by;
    return false;
  };
  if (size == 0) return held_up(role_wait::goal);
  const auto permit = book_->may_issue(installed_);
  if (!permit) return held_up(role_wait::window);
  // Where cores are few, seed variants would slow the generator down while all wait for it.
  const bool seed_variants_wait = permit->sequence <= config_.algorithm.groups_per_step &&
                                  !book_->in_state(sample_state::issued).empty();
  for (std::int64_t ahead = permit->sequence;
       !seed_variants_wait && ahead < permit->sequence + seed_variants_ahead; ++ahead) {
    if (!shows_exemplars(ahead)) continue;
    QUERN_TRY(const book_task* next, tasks_.find(sampler_->task_of(ahead)));
    draw_seed_variants(*next, newest_group_ + 1 + ahead - permit->sequence);
  }
  QUERN_TRY(const book_task* task, tasks_.find(sampler_->task_of(permit->sequence)));
  std::vector<shown_exemplar> exemplars;
  if (shows_exemplars(permit->sequence)) {
    if (seed_variants_wait && !has_exemplars(*task)) return held_up(role_wait::exemplars);
    if (seed_variants_.waits_for(task->id) && !has_exemplars(*task))
      return held_up(role_wait::exemplars);
    QUERN_TRY(exemplars, prompter_->choose(*task, *archive_, permit->sequence, permit->version));
  }
  const made_prompt prompt = prompter_->render(*task, exemplars);
  storage::group_spec spec;
  spec.seq = permit->sequence;
  spec.task = task->id;
  spec.exemplars = prompt.exemplars;
  QUERN_TRY(spec.prompt_hash, blobs_.put(prompt.text));
  spec.template_hash = prompt.template_hash;
  spec.size = static_cast<int>(size);
  QUERN_TRY(const storage::issued_group issued, ledger_->issue(spec));
  live_group group{task->id, prompt.text, prompt.exemplars, {}};
  for (std::int64_t k = 0; k < spec.size; ++k)
    group.samples.push_back(issued.first_sample + k);
  QUERN_CHECK(book_->issued(issued.group, *permit, group.samples));
  QUERN_TRY(generate_group order, order_of(group, issued.group, group.samples));
  orders.generate.push_back(std::move(order));
  samples_.issue(issued.group, std::move(group));
  newest_group_ = issued.group;
  --free_groups_;
  return true;
}

std::map<std::int64_t, std::int64_t> orchestrator::batch_ages() const {
  const auto& chosen = book_->under_way();
  return chosen ? samples_.ages(*chosen) : std::map<std::int64_t, std::int64_t>();
}

step_results orchestrator::batch_results() const {
  const auto& chosen = book_->under_way();
  return chosen ? samples_.results(*chosen) : step_results();
}

batch_shape orchestrator::batch_form() const {
  const auto& chosen = book_->under_way();
  return chosen ? samples_.shape(*chosen) : batch_shape();
}

queue_depths orchestrator::queues() const {
  queue_depths depths;
  std::int64_t used = 0;
  if (const auto& chosen = book_->under_way())
    for (const batch_group& group : chosen->groups)
      used += std::ssize(group.members);
  for (const sample_id id : book_->in_state(sample_state::generated))
    ++(samples_.at(id).judging ? depths.verdict : depths.room);
  depths.group = std::ssize(book_->in_state(sample_state::evaluated));
  const std::int64_t admitted = std::ssize(book_->in_state(sample_state::admitted));
  depths.step = admitted - used;
  depths.tokens = static_cast<std::int64_t>(book_->live()) - depths.verdict - depths.room -
                  depths.group - admitted;
  depths.seed_variants = static_cast<std::int64_t>(seed_variants_.open());
  return depths;
}

base::expected<train_batch> orchestrator::make_batch(const batch& chosen) {
  train_batch order;
  order.incarnation = incarnation();
  order.from = chosen.from;
  order.number = chosen.number;
  order.samples = samples_.training(chosen);
  stepping_rewards_.clear();
  for (const training_sample& sample : order.samples)
    stepping_rewards_.push_back(sample.reward);
  std::vector<std::size_t> source(order.samples.size());
  std::iota(source.begin(), source.end(), std::size_t{0});
  if (config_.learner.permute_rewards) {
    base::random_stream random(static_cast<std::uint64_t>(config_.run.seed), "permute rewards",
                               {static_cast<std::uint64_t>(chosen.from)});
    for (std::size_t i = source.size(); i > 1; --i)
      std::swap(source[i - 1], source[random.below(i)]);
  }
  for (std::size_t i = 0; i < order.samples.size(); ++i) {
    const double reward = stepping_rewards_[source[i]];
    order.samples[i].reward =
        loss_.smoothing_clip > 0 ? smoothing_.smooth(reward, loss_.smoothing_clip) : reward;
  }
  return order;
}

}  // namespace quern::actors
