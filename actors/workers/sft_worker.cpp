#include "actors/workers/sft_worker.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "actors/config/fresh_model.hpp"
#include "actors/decide/step_spans.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/decide/token_segments.hpp"
#include "actors/defaults.hpp"
#include "actors/workers/element_type.hpp"
#include "actors/workers/rank_group.hpp"
#include "actors/workers/trainer_setup.hpp"
#include "actors/workers/worker_end.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/text.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/sharded_checkpoint.hpp"
#include "policy/engine/threads.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer_files.hpp"
#include "storage/checkpoint.hpp"
#include "storage/disk_room.hpp"
#include "storage/metrics_writer.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

/// Of a weight: itself, master weight and two moments, in float32.
constexpr std::uint64_t bytes_of_checkpoint = 16;

base::expected<policy::training_sequence> to_sequence(const policy::tokenizer& text,
                                                      const corpus_text& record,
                                                      std::int32_t end_token) {
  const policy::chat_message message{"user", record.prompt};
  policy::training_sequence sequence;
  QUERN_TRY(sequence.tokens,
            policy::encode_chat(text, policy::chat_format::none, std::span(&message, 1)));
  const std::int64_t prompt = std::ssize(sequence.tokens);
  const auto completion = text.encode(record.completion);
  sequence.tokens.insert(sequence.tokens.end(), completion.begin(), completion.end());
  sequence.tokens.push_back(end_token);
  sequence.loss_mask = loss_mask(single_turn(prompt, std::ssize(sequence.tokens) - prompt));
  return sequence;
}

policy::trainer_options options_of(const run_config& config, std::int64_t vocabulary) {
  auto options =
      trainer_options_of(config, policy::preset_defaults(policy::preset::sft), vocabulary);
  options.optimizer.floor = 0.05;
  options.pack.share_prompts = false;
  return options;
}

/// The tokenizer's folder of the run; rank 0 makes it, the others wait for that.
base::expected<fs::path> tokenizer_folder(const run_config& config, const fs::path& run,
                                          const std::vector<corpus_text>& records,
                                          const rank_group& group, std::int32_t rank) {
  fs::path folder = run / "tokenizer";
  const bool whole =
      fs::exists(folder / "tokenizer.json") && fs::exists(folder / "tokenizer_config.json");
  if (rank == 0 && !whole) {
    const rank_guard::busy now(group.guard, "training the vocabulary",
                               defaults::vocabulary_deadline);
    QUERN_CHECK(base::make_folders(folder));
    QUERN_TRY(const std::string vocabulary, make_vocabulary(config, records));
    policy::special_names special;
    special.end = end_of_text;
    QUERN_CHECK(policy::save_tokenizer(folder, vocabulary, special));
  }
  const nanoseconds_t patience = with_bytes(2 * defaults::vocabulary_deadline, 0);
  if (group.link) QUERN_CHECK(group.link->gather("the tokenizer", patience));
  return folder;
}

/// The step of the newest checkpoint that is whole; 0: none. Rank 0 looks, moves what was made
/// after it out of the way, and tells the others.
base::expected<std::int64_t> begin_at(const fs::path& run, const rank_group& group,
                                      std::int32_t rank) {
  constexpr const char* key = "step to go on from";
  const std::uint64_t bytes = bytes_at(run / "checkpoints");
  if (rank > 0) {
    const nanoseconds_t patience = with_bytes(2 * defaults::phase_deadline, bytes);
    QUERN_TRY(const std::string told, group.link->get(key, 0, patience));
    return std::stoll(told);
  }
  const rank_guard::busy now(group.guard, "reading checkpoints", defaults::phase_deadline, bytes);
  storage::checkpoint_store checkpoints(run / "checkpoints");
  QUERN_TRY(const auto versions, checkpoints.known());
  std::int64_t reached = 0;
  if (!versions.empty()) {
    QUERN_TRY(const auto choice, checkpoints.choose(versions));
    for (const std::string& problem : choice.problems)
      base::log_warn("sft", "{}", problem);
    for (const fs::path& stray : choice.strays)
      base::log_warn("sft", "{}", storage::stray_text(stray));
    reached = choice.chosen.version;
    const std::string older = older_checkpoint_text(versions.front(), reached, versions.front());
    if (!older.empty()) base::log_warn("sft", "{}", older);
  }
  QUERN_TRY(const auto aside, checkpoints.set_aside_above(reached));
  for (const storage::set_aside_checkpoint& moved : aside)
    base::log_warn("sft", "{}", storage::set_aside_text(moved, reached));
  if (group.link) QUERN_CHECK(group.link->set(key, std::to_string(reached)));
  return reached;
}

/// A rank of fine-tuning, with weights and optimiser of the last checkpoint, or fresh ones.
class fine_tuning {
 public:
  static base::expected<fine_tuning> make(const run_config& config, const fs::path& run,
                                          const std::vector<corpus_text>& records,
                                          const tuning_place& place, at::Device device);

  [[nodiscard]] std::int64_t version() const { return trainer_.version(); }
  [[nodiscard]] std::int64_t vocabulary() const { return text_.vocab_size(); }
  /// One that is too long is left out, the first of them with a warning.
  base::status take(const corpus_text& record, std::vector<policy::training_sequence>& batch);
  /// `limit`: of a rank that is alone; those of a group watch each other.
  base::expected<policy::step_metrics> step(std::vector<policy::training_sequence> batch,
                                            nanoseconds_t limit);
  /// For a scope in which it is at something else.
  [[nodiscard]] rank_guard::busy busy(std::string_view phase) const {
    return rank_guard::busy(group_.guard, phase, defaults::phase_deadline);
  }
  [[nodiscard]] std::string where() const { return group_.guard->where(); }
  /// Whether any rank was asked to pause.
  base::expected<bool> any(bool asked);
  base::status save();
  /// Returns when no rank has anything left to do: none is missed by the others before.
  base::status leave();

 private:
  fine_tuning(const run_config& config, const fs::path& run, fs::path tokenizer_folder,
              policy::tokenizer text, rank_group group, policy::trainer trainer)
      : config_(config),
        checkpoints_(run / "checkpoints", config.storage.keep_checkpoints),
        tokenizer_folder_(std::move(tokenizer_folder)),
        text_(std::move(text)),
        group_(std::move(group)),
        trainer_(std::move(trainer)),
        writer_(std::make_unique<policy::checkpoint_writer>(group_.link.get())) {}

  [[nodiscard]] bool leads() const { return !group_.link || group_.link->rank() == 0; }
  base::status write_part(const fs::path& folder, std::function<base::status()> model);

  run_config config_;
  storage::checkpoint_store checkpoints_;
  fs::path tokenizer_folder_;
  policy::tokenizer text_;
  rank_group group_;
  policy::trainer trainer_;
  std::int64_t left_out_ = 0;
  /// One for all checkpoints: it numbers them for the ranks. Last, as it uses the rendezvous.
  std::unique_ptr<policy::checkpoint_writer> writer_;
};

base::expected<fine_tuning> fine_tuning::make(const run_config& config, const fs::path& run,
                                              const std::vector<corpus_text>& records,
                                              const tuning_place& place, at::Device device) {
  QUERN_TRY(rank_group group, join_ranks(place.rendezvous, config, place.rank, {}, device));
  QUERN_TRY(fs::path folder, tokenizer_folder(config, run, records, group, place.rank));
  QUERN_TRY(policy::tokenizer text, policy::tokenizer::load(folder));
  const auto end_token = text.find(end_of_text);
  if (!end_token) return fail(errc::corrupt, "{} has no token {}", folder.string(), end_of_text);
  const auto model = fresh_model(config, text.vocab_size(), *end_token);
  QUERN_TRY(const memory_share memory, plan_memory(model, config, place.rank, device));
  base::log_info("sft", "it plans to hold {} on {}, where {} are for it",
                 base::human_bytes(static_cast<std::uint64_t>(memory.plan.total())), device.str(),
                 base::human_bytes(static_cast<std::uint64_t>(memory.available)));

  QUERN_TRY(const std::int64_t reached, begin_at(run, group, place.rank));
  const fs::path last =
      reached > 0 ? storage::checkpoint_store(run / "checkpoints").folder_of(reached) : fs::path();
  policy::layout layout;
  layout.ranks = static_cast<std::int32_t>(config.learner.ranks);
  const auto weights = [&]() -> base::expected<policy::parameter_arena> {
    const at::ScalarType type = element_type_of(config);
    if (reached > 0) return policy::parameter_arena::load(last / "model", type, device, layout);
    return policy::parameter_arena::random(model, static_cast<std::uint64_t>(config.run.seed), type,
                                           device, layout);
  };
  group.guard->at("loading", reached);
  const rank_guard::busy now(group.guard, "loading", defaults::phase_deadline, bytes_at(last));
  QUERN_TRY(auto arena, weights());
  policy::parallel_context context;
  context.dp = layout.ranks;
  context.dp_rank = place.rank;
  QUERN_TRY(auto trainer,
            policy::trainer::make(std::move(arena), options_of(config, text.vocab_size()), context,
                                  group.ranks.get()));
  if (reached > 0) {
    const fs::path shards = last / "optimizer";
    QUERN_CHECK(load_optimizer_state(trainer,
                                     fs::exists(shards) ? shards : last / "optimizer.safetensors"));
    trainer.set_version(reached);
  }
  return fine_tuning(config, run, std::move(folder), std::move(text), std::move(group),
                     std::move(trainer));
}

base::status fine_tuning::take(const corpus_text& record,
                               std::vector<policy::training_sequence>& batch) {
  const auto& model = trainer_.weights().config;
  QUERN_TRY(auto sequence, to_sequence(text_, record, model.eos_tokens.at(0)));
  const auto prompt =
      std::find(sequence.loss_mask.begin(), sequence.loss_mask.end(), std::uint8_t{1}) -
      sequence.loss_mask.begin();
  const std::int64_t limit = model.max_positions;
  if (std::ssize(sequence.tokens) <= limit && prompt <= config_.policy.max_prompt_tokens) {
    batch.push_back(std::move(sequence));
  } else if (left_out_++ == 0) {
    base::log_warn("sft",
                   "a record has a prompt of {} tokens (policy.max_prompt_tokens is {}) and {} in "
                   "all (the model takes {}): such records are left out",
                   prompt, config_.policy.max_prompt_tokens, sequence.tokens.size(), limit);
  }
  return {};
}

base::expected<policy::step_metrics> fine_tuning::step(std::vector<policy::training_sequence> batch,
                                                       nanoseconds_t limit) {
  const policy::batch_totals totals = policy::count(batch);
  group_.guard->at("step", version());
  if (!group_.ranks) {
    const rank_guard::busy now(group_.guard, "step", std::chrono::nanoseconds(limit));
    return trainer_.step(batch, totals);
  }
  batch = share_of_rank(std::move(batch), *group_.ranks);
  auto metrics = trainer_.step(batch, totals);
  group_.guard->at("after a step", version());
  return metrics;
}

base::expected<bool> fine_tuning::any(bool asked) {
  if (!group_.ranks) return asked;
  return group_.ranks->any(asked, "whether to pause");
}

base::status fine_tuning::leave() {
  if (!group_.ranks) return {};
  QUERN_CHECK(group_.ranks->barrier("the end"));
  group_.guard.reset();  // who leaves sooner than others has not failed them
  return {};
}

/// The optimiser's shard of this rank, and of rank 0 what else there is.
base::status fine_tuning::write_part(const fs::path& folder, std::function<base::status()> model) {
  base::status result;
  writer_->write(policy::snapshot(trainer_.optimizer()), folder / "optimizer", std::move(model),
                 [&](base::status written) { result = std::move(written); });
  writer_->wait();
  return result;
}

/// Rank 0 makes the checkpoint; where it does, the others learn by their rendezvous.
base::status fine_tuning::save() {
  const std::string key = fmt::format("checkpoint of step {}", version());
  // Written, and read again for its manifest.
  const std::uint64_t bytes =
      2 * bytes_of_checkpoint * static_cast<std::uint64_t>(trainer_.weights().flat.numel());
  const rank_guard::busy now(group_.guard, "saving a checkpoint", defaults::checkpoint_timeout,
                             bytes);
  if (!leads()) {
    const nanoseconds_t patience = with_bytes(defaults::phase_deadline, 0);
    QUERN_TRY(const std::string folder, group_.link->get(key, 0, patience));
    return write_part(folder, {});
  }
  const fs::path folder_of_all = checkpoints_.folder_of(version()).parent_path();
  const std::string warning =
      storage::warning_of_room(folder_of_all, bytes / 2, storage::free_bytes(folder_of_all));
  if (!warning.empty()) base::log_warn("checkpoint", "{}", warning);
  const auto fill = [&](const fs::path& folder) -> base::status {
    if (group_.link) QUERN_CHECK(group_.link->set(key, folder.string()));
    return write_part(folder, [&]() -> base::status {
      QUERN_CHECK(base::make_folders(folder / "model"));
      return policy::save_model(trainer_.weights(), folder / "model", tokenizer_folder_, {},
                                static_cast<std::uint64_t>(config_.storage.shard_mb) * 1'000'000);
    });
  };
  QUERN_TRY(const auto written, checkpoints_.write(version(), fill));
  return checkpoints_.publish(written.version);
}

/// Exit code: done or paused.
base::expected<int> make_steps(const run_config& config, const fs::path& run,
                               const std::vector<corpus_text>& records, fine_tuning& tuning,
                               const tuning_place& place, base::pause_signals& signals) {
  const bool leads = place.rank == 0;
  std::optional<storage::metrics_writer> metrics_file;
  if (leads) {
    QUERN_TRY(metrics_file, storage::metrics_writer::open(storage::run_paths{run}));
  }
  base::log_info("sft", "{} records, {} tokens in the vocabulary, from step {}", records.size(),
                 tuning.vocabulary(), tuning.version());
  const base::steady_clock clock;
  const base::nanoseconds_t started = clock.now_ns();
  step_watch pace(step_limits::of_model(0), clock);
  pace.lost_before(place.in_vain);
  std::int64_t saved = tuning.version();
  while (tuning.version() < config.learner.steps) {
    std::vector<policy::training_sequence> batch;
    {
      const auto now = tuning.busy("making a batch");
      for (const std::size_t index :
           batch_of_step(static_cast<std::uint64_t>(config.run.seed), tuning.version(),
                         config.learner.batch_samples, records.size()))
        QUERN_CHECK(tuning.take(records[index], batch));
    }
    if (batch.empty()) {
      return fail(errc::invalid_argument,
                  "no record of step {} is short enough: raise policy.max_prompt_tokens ({}) or "
                  "policy.max_new_tokens ({})",
                  tuning.version() + 1, config.policy.max_prompt_tokens,
                  config.policy.max_new_tokens);
    }
    pace.sent(learner_work::step, tuning.version());
    QUERN_TRY(const policy::step_metrics metrics,
              tuning.step(std::move(batch), pace.limit_of(learner_work::step)));
    pace.answered(learner_work::step, metrics.version - 1);
    if (metrics.skipped)
      return fail(errc::internal,
                  "the gradient of step {} is not finite: lower learner.learning_rate and resume",
                  tuning.version() + 1);
    const double seconds = static_cast<double>(clock.now_ns() - started) / 1e9;
    if (leads) {
      const auto now = tuning.busy("writing metrics");
      QUERN_CHECK(metrics_file->append({{"step", metrics.version},
                                        {"seconds", seconds},
                                        {"learner", policy::to_json(metrics)}}));
    }
    QUERN_TRY(const bool pausing, tuning.any(signals.arrived(0)));
    if (leads && (metrics.version % 25 == 0 || pausing)) {
      base::log_info("sft", "step {}/{}  loss {:.4f}  {:.0f} s", metrics.version,
                     config.learner.steps, metrics.loss, seconds);
    }
    const bool last = metrics.version == config.learner.steps;
    if (pausing || last || metrics.version - saved >= config.storage.checkpoint_every_steps) {
      QUERN_CHECK(tuning.save());
      saved = metrics.version;
    }
    if (pausing && !last) {
      QUERN_CHECK(tuning.leave());
      return defaults::paused_code;
    }
  }
  QUERN_CHECK(tuning.leave());
  return 0;
}

base::expected<int> tune(const run_config& config, const fs::path& corpus, const fs::path& run,
                         const tuning_place& place) {
  base::pause_signals signals;
  policy::set_threads(1);  // the trainer's workers are the threads
  QUERN_TRY(const at::Device device, policy::choose_device(config.learner.device));
  QUERN_TRY(const auto records, read_corpus(corpus));
  QUERN_TRY(auto tuning, fine_tuning::make(config, run, records, place, device));
  try {
    return make_steps(config, run, records, tuning, place, signals);
  } catch (...) {
    // Here, where nothing of it has been taken down yet.
    end_worker("sft", error_of(std::current_exception(),
                               fmt::format("sft rank {}, {}", place.rank, tuning.where())));
  }
}

}  // namespace

base::expected<int> run_fine_tuning(const run_config& config, const fs::path& corpus,
                                    const fs::path& run, const tuning_place& place) {
  try {
    auto ended = tune(config, corpus, run, place);
    if (!ended && group_failed(ended.error(), config)) leave_group(ended.error());
    return ended;
  } catch (...) {
    end_worker("sft",
               error_of(std::current_exception(), fmt::format("sft rank {}, loading", place.rank)));
  }
}

}  // namespace quern::actors
