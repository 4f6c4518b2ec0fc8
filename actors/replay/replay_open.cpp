// Opening a run and recovering it: the beginning of an epoch.
#include "actors/config/learner_setup.hpp"
#include "actors/replay/replay.hpp"
#include "actors/replay/sample_blob.hpp"
#include "actors/replay/search_start.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

namespace quern::actors {
namespace {

namespace fs = std::filesystem;

}  // namespace

replay::replay(const run_config& config, storage::run_directory& run, const task_book& tasks)
    : config_(config),
      run_(run),
      tasks_(tasks),
      blobs_(run.paths().blobs()),
      checkpoints_(run.paths().checkpoints(), config.storage.keep_checkpoints),
      loss_(loss_parameters_of(config)) {}

base::expected<std::unique_ptr<replay>> replay::open(const run_config& config,
                                                     storage::run_directory& run,
                                                     const task_book& tasks,
                                                     std::string device_class) {
  std::unique_ptr<replay> made(new replay(config, run, tasks));
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
  QUERN_CHECK(made->begin_epoch(position.epoch == 0 ? "start" : "resume"));
  return made;
}

base::status replay::begin_epoch(const std::string& reason) {
  QUERN_TRY(const auto recorded, ledger_->checkpoints());
  weights_version version = 0;
  QUERN_TRY(const fs::path first_model, model_folder(config_));
  start_.model = first_model.string();
  start_.reference = start_.model;
  start_.optimizer.clear();
  smoothing_ = {};
  std::error_code code;
  if (!recorded.empty()) {
    std::vector<std::int64_t> candidates;
    for (const storage::checkpoint_row& row : recorded)
      candidates.push_back(row.version);
    QUERN_TRY(const storage::checkpoint_choice choice, checkpoints_.choose(candidates));
    for (const std::string& problem : choice.problems)
      base::log_warn("replay", "{}", problem);
    for (const fs::path& stray : choice.strays)
      base::log_warn("replay", "{}", storage::stray_text(stray));
    version = choice.chosen.version;
    start_.model = (choice.chosen.folder / "model").string();
    // Shards in a folder; runs of earlier builds have one file.
    start_.optimizer = (choice.chosen.folder / "optimizer").string();
    if (!fs::is_directory(start_.optimizer, code)) start_.optimizer += ".safetensors";
    QUERN_TRY(const std::string text, base::read_file(choice.chosen.folder / "state.json"));
    QUERN_TRY(const base::json state, base::parse_json(text));
    QUERN_TRY(smoothing_,
              policy::reward_statistics_from_json(state.value("reward_statistics", base::json())));
  }
  QUERN_CHECK(clear_checkpoints(version));
  fs::remove_all(run_.paths().root / "staging", code);
  // Generators of this epoch start from it, also when one dies many checkpoints later.
  checkpoints_.hold(version);
  storage::epoch_request request;
  request.reason = reason;
  request.from_version = version;
  request.tokens_readable = [this](std::int64_t, const base::hash128& tokens) {
    return blobs_.readable(tokens);
  };
  QUERN_TRY(const storage::epoch_report report, ledger_->open_epoch(request));
  QUERN_CHECK(run_.lock().note_epoch(report.epoch));
  if (report.epoch > 1) {
    QUERN_CHECK(archive_->rebuild());
    base::log_info("replay",
                   "epoch {} from version {}: {} samples back to admitted, {} to be made again, {} "
                   "with unreadable tokens",
                   report.epoch, version, report.readmitted, report.reissued, report.unreadable);
  }
  start_.epoch = report.epoch;
  start_.version = version;
  QUERN_TRY(const storage::ledger_position position, ledger_->position());
  replay_options options;
  options.staleness.max_age = config_.actors.staleness;
  options.staleness.groups_per_step = config_.algorithm.groups_per_step;
  QUERN_TRY(options.staleness.policy, parse_staleness_policy(config_.actors.stale_groups));
  options.fixed_policy = is_search(config_);
  if (is_search(config_)) {
    QUERN_TRY(search_, search_so_far(config_, *ledger_, *archive_, sampler_->pass_length()));
  }
  QUERN_TRY(book_, replay_book::make(report.epoch, version, options, position.next_seq));
  groups_.clear();
  samples_.clear();
  scouting_.clear();
  scouts_.clear();
  held_scouts_.clear();
  to_generate_.clear();
  stepping_rewards_.clear();
  states_to_save_.clear();
  leases_to_commit_.clear();
  free_groups_ = 0;
  installed_ = version;
  last_checkpoint_ = version;
  learner_ready_ = false;
  saving_.reset();
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

/// Newer checkpoints, damaged or unknown to the ledger, go out of the way of those to come.
base::status replay::clear_checkpoints(weights_version version) {
  QUERN_TRY(const auto aside, checkpoints_.set_aside_above(version));
  for (const storage::set_aside_checkpoint& moved : aside)
    base::log_warn("replay", "{}", storage::set_aside_text(moved, version));
  return {};
}

/// The groups with live samples. Those whose prompt cannot be read are dropped: no token of theirs
/// can be made again, and the learner is shown prompt and answer together.
base::expected<std::vector<storage::group_row>> replay::groups_to_restore() {
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
    base::log_warn("replay", "group {} is dropped with {} samples, since its prompt is lost: {}",
                   row.id, lost.size(), prompt.error().message);
    QUERN_CHECK(ledger_->drop(lost, drop_reason::prompt_lost));
    drops_.dropped(drop_reason::prompt_lost, std::ssize(lost));
  }
  return kept;
}

base::status replay::restore_group(const storage::group_row& row) {
  group_info group{row.task, {}, row.exemplars, {}};
  QUERN_TRY(group.prompt, blobs_.get(row.prompt_hash));
  for (const storage::sample_row& sample : row.samples) {
    sample_info info;
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
      if (verdict.row.epoch == epoch()) {
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
    samples_.emplace(sample.id, std::move(info));
  }
  groups_.emplace(row.id, std::move(group));
  newest_group_ = std::max(newest_group_, row.id);
  return book_->restore(row);
}

base::status replay::learner_lost() {
  base::log_warn("replay", "the learner is gone: going on from the last checkpoint");
  QUERN_CHECK(ledger_->commit());
  return begin_epoch("learner lost");
}

base::status replay::close() {
  QUERN_CHECK(ledger_->commit());
  archive_.reset();
  ledger_.reset();
  // Everything is durable: one file in place of two is a convenience, and no reason to fail.
  if (auto folded = db_->fold(); !folded) base::log_warn("ledger", "{}", folded.error().message);
  return {};
}

}  // namespace quern::actors
