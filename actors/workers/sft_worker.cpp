#include "actors/workers/sft_worker.hpp"

#include <algorithm>
#include <numeric>

#include "actors/config/fresh_model.hpp"
#include "actors/workers/element_type.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/random.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/threads.hpp"
#include "policy/text/bpe_trainer.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer_files.hpp"
#include "storage/checkpoint.hpp"
#include "storage/jsonl.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

/// Records that the vocabulary is trained on: more of them change nothing but the time it takes.
constexpr std::size_t vocabulary_records = 3000;

base::expected<policy::training_sequence> to_sequence(const policy::tokenizer& text,
                                                      const corpus_text& record,
                                                      std::int32_t end_token) {
  const policy::chat_message message{"user", record.prompt};
  policy::training_sequence sequence;
  QUERN_TRY(sequence.tokens,
            policy::encode_chat(text, policy::chat_format::none, std::span(&message, 1)));
  sequence.loss_mask.assign(sequence.tokens.size(), 0);
  const auto completion = text.encode(record.completion);
  sequence.tokens.insert(sequence.tokens.end(), completion.begin(), completion.end());
  sequence.tokens.push_back(end_token);
  sequence.loss_mask.resize(sequence.tokens.size(), 1);
  return sequence;
}

policy::trainer_options options_of(const run_config& config, std::int64_t vocabulary) {
  policy::trainer_options options;
  options.loss = policy::preset_defaults(policy::preset::sft);
  options.optimizer.learning_rate = config.learner.learning_rate;
  options.optimizer.schedule = *policy::parse_schedule(config.learner.schedule);
  options.optimizer.warmup_steps = config.learner.warmup_steps;
  options.optimizer.total_steps = config.learner.steps;
  options.optimizer.floor = 0.05;
  options.optimizer.weight_decay = config.learner.weight_decay;
  options.optimizer.max_grad_norm = config.learner.max_grad_norm;
  options.pack.max_rows = config.learner.micro_batch_tokens;
  options.pack.share_prompts = false;
  options.workers = static_cast<std::int32_t>(config.learner.threads);
  options.valid_tokens = vocabulary;
  return options;
}

/// The tokenizer and the weights to go on from: of the last checkpoint, or fresh ones.
struct fine_tuning {
  fs::path tokenizer_folder;
  policy::tokenizer text;
  policy::trainer trainer;
};

base::expected<fine_tuning> begin(const run_config& config, const fs::path& run,
                                  storage::checkpoint_store& checkpoints,
                                  const std::vector<corpus_text>& records, at::Device device) {
  const fs::path folder = run / "tokenizer";
  if (!fs::exists(folder / "tokenizer.json")) {
    QUERN_CHECK(base::make_folders(folder));
    QUERN_TRY(const std::string vocabulary, make_vocabulary(config, records));
    policy::special_names special;
    special.end = end_of_text;
    QUERN_CHECK(policy::save_tokenizer(folder, vocabulary, special));
  }
  QUERN_TRY(policy::tokenizer text, policy::tokenizer::load(folder));
  const auto versions = checkpoints.versions();
  if (!versions.empty()) {
    QUERN_TRY(const auto choice, checkpoints.choose(versions));
    QUERN_TRY(auto arena, policy::parameter_arena::load(choice.chosen.folder / "model",
                                                        element_type_of(config), device));
    QUERN_TRY(auto trainer,
              policy::trainer::make(std::move(arena), options_of(config, text.vocab_size())));
    QUERN_CHECK(policy::load_optimizer(trainer.optimizer(),
                                       choice.chosen.folder / "optimizer.safetensors"));
    trainer.set_version(choice.chosen.version);
    return fine_tuning{folder, std::move(text), std::move(trainer)};
  }
  const auto end_token = text.find(end_of_text);
  if (!end_token) return fail(errc::corrupt, "{} has no token {}", folder.string(), end_of_text);
  QUERN_TRY(auto arena,
            policy::parameter_arena::random(fresh_model(config, text.vocab_size(), *end_token),
                                            static_cast<std::uint64_t>(config.run.seed),
                                            element_type_of(config), device));
  QUERN_TRY(auto trainer,
            policy::trainer::make(std::move(arena), options_of(config, text.vocab_size())));
  return fine_tuning{folder, std::move(text), std::move(trainer)};
}

base::status save(fine_tuning& tuning, storage::checkpoint_store& checkpoints,
                  std::int64_t shard_mb) {
  const auto fill = [&](const fs::path& folder) -> base::status {
    QUERN_CHECK(base::make_folders(folder / "model"));
    QUERN_CHECK(policy::save_model(tuning.trainer.weights(), folder / "model",
                                   tuning.tokenizer_folder, {},
                                   static_cast<std::uint64_t>(shard_mb) * 1'000'000));
    return policy::save_optimizer(tuning.trainer.optimizer(), folder / "optimizer.safetensors");
  };
  QUERN_TRY(const auto written, checkpoints.write(tuning.trainer.version(), fill));
  return checkpoints.publish(written.version);
}

}  // namespace

base::expected<std::vector<corpus_text>> read_corpus(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<corpus_text> records;
  for (const fs::path& file : files) {
    const auto take = [&](const base::json& line) -> base::status {
      if (!line.contains("prompt")) return {};
      QUERN_TRY(std::string prompt, base::get<std::string>(line, "prompt"));
      QUERN_TRY(std::string completion, base::get<std::string>(line, "completion"));
      records.push_back({std::move(prompt), std::move(completion)});
      return {};
    };
    if (auto read = storage::read_jsonl(file, take); !read) {
      return base::in_context(file.string(), std::move(read).error());
    }
  }
  if (records.empty()) {
    return fail(errc::not_found,
                "no record of a corpus in {}: make it with quern train (stage sft)",
                folder.string());
  }
  return records;
}

base::expected<std::string> make_vocabulary(const run_config& config,
                                            const std::vector<corpus_text>& records) {
  std::vector<std::string_view> texts;
  const std::size_t stride = std::max<std::size_t>(1, records.size() / vocabulary_records);
  for (std::size_t i = 0; i < records.size(); i += stride) {
    texts.push_back(records[i].prompt);
    texts.push_back(records[i].completion);
  }
  policy::bpe_training options;
  options.vocab_size = config.policy.vocabulary;
  options.special_tokens = {end_of_text};
  return policy::train_bpe(texts, options);
}

std::vector<std::size_t> batch_of_step(std::uint64_t seed, std::int64_t step, std::int64_t batch,
                                       std::size_t records) {
  std::vector<std::size_t> chosen;
  std::vector<std::size_t> order(records);
  std::int64_t shuffled_pass = -1;
  for (std::int64_t k = step * batch; k < (step + 1) * batch; ++k) {
    const std::int64_t pass = k / static_cast<std::int64_t>(records);
    if (pass != shuffled_pass) {
      std::iota(order.begin(), order.end(), std::size_t{0});
      base::random_stream random(seed, "corpus pass", {static_cast<std::uint64_t>(pass)});
      for (std::size_t i = records; i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
      shuffled_pass = pass;
    }
    chosen.push_back(order[static_cast<std::size_t>(k) % records]);
  }
  return chosen;
}

base::expected<int> run_fine_tuning(const run_config& config, const fs::path& corpus,
                                    const fs::path& run) {
  base::pause_signals signals;
  policy::set_threads(1);  // the trainer's workers are the threads
  QUERN_TRY(const at::Device device, policy::choose_device(config.learner.device));
  QUERN_TRY(const auto records, read_corpus(corpus));
  storage::checkpoint_store checkpoints(run / "checkpoints", config.storage.keep_checkpoints);
  QUERN_TRY(fine_tuning tuning, begin(config, run, checkpoints, records, device));
  QUERN_TRY(auto metrics_file, storage::jsonl_writer::open(run / "metrics.jsonl"));
  const std::int32_t end_token = tuning.trainer.weights().config.eos_tokens.at(0);
  const std::int64_t limit = tuning.trainer.weights().config.max_positions;
  base::log_info("sft", "{} records, {} tokens in the vocabulary, from step {}", records.size(),
                 tuning.text.vocab_size(), tuning.trainer.version());
  const base::steady_clock clock;
  const base::nanoseconds_t started = clock.now_ns();
  std::int64_t saved = tuning.trainer.version();
  std::int64_t left_out = 0;
  while (tuning.trainer.version() < config.learner.steps) {
    std::vector<policy::training_sequence> batch;
    for (const std::size_t index :
         batch_of_step(static_cast<std::uint64_t>(config.run.seed), tuning.trainer.version(),
                       config.learner.batch_samples, records.size())) {
      QUERN_TRY(auto sequence, to_sequence(tuning.text, records[index], end_token));
      const auto prompt =
          std::find(sequence.loss_mask.begin(), sequence.loss_mask.end(), std::uint8_t{1}) -
          sequence.loss_mask.begin();
      if (static_cast<std::int64_t>(sequence.tokens.size()) <= limit &&
          prompt <= config.policy.max_prompt_tokens) {
        batch.push_back(std::move(sequence));
      } else if (left_out++ == 0) {
        base::log_warn("sft",
                       "a record has a prompt of {} tokens (policy.max_prompt_tokens is {}) and {} "
                       "in all (the model takes {}): such records are left out",
                       prompt, config.policy.max_prompt_tokens, sequence.tokens.size(), limit);
      }
    }
    if (batch.empty()) {
      return fail(errc::invalid_argument,
                  "no record of step {} is short enough: raise policy.max_prompt_tokens ({}) or "
                  "policy.max_new_tokens ({})",
                  tuning.trainer.version() + 1, config.policy.max_prompt_tokens,
                  config.policy.max_new_tokens);
    }
    QUERN_TRY(const policy::step_metrics metrics, tuning.trainer.step(batch));
    const double seconds = static_cast<double>(clock.now_ns() - started) / 1e9;
    QUERN_CHECK(metrics_file.append(
        {{"step", metrics.version}, {"seconds", seconds}, {"learner", policy::to_json(metrics)}}));
    const bool pausing = signals.arrived(0);
    if (metrics.version % 25 == 0 || pausing) {
      base::log_info("sft", "step {}/{}  loss {:.4f}  {:.0f} s", metrics.version,
                     config.learner.steps, metrics.loss, seconds);
    }
    const bool last = metrics.version == config.learner.steps;
    if (pausing || last || metrics.version - saved >= config.storage.checkpoint_every_steps) {
      QUERN_CHECK(save(tuning, checkpoints, config.storage.shard_mb));
      saved = metrics.version;
    }
    if (pausing && !last) return 3;
  }
  return 0;
}

}  // namespace quern::actors
