#include "actors/workers/learning_worker.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "actors/workers/arena_bytes.hpp"
#include "base/file.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/loss/advantage.hpp"
#include "policy/text/tokenizer.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

policy::trainer_options options_of(const run_config& config, policy::loss_parameters loss,
                                   std::int64_t valid_tokens) {
  policy::trainer_options options;
  options.loss = loss;
  options.optimizer.learning_rate = config.learner.learning_rate;
  options.optimizer.schedule = *policy::parse_schedule(config.learner.schedule);
  options.optimizer.warmup_steps = config.learner.warmup_steps;
  options.optimizer.total_steps = config.learner.steps;
  options.optimizer.weight_decay = config.learner.weight_decay;
  options.optimizer.max_grad_norm = config.learner.max_grad_norm;
  options.pack.max_rows = config.learner.micro_batch_tokens;
  options.workers = static_cast<std::int32_t>(config.learner.threads);
  options.valid_tokens = valid_tokens;
  return options;
}

}  // namespace

policy::loss_parameters loss_parameters_of(const run_config& config) {
  auto loss = policy::preset_defaults(*policy::parse_preset(config.algorithm.preset));
  loss.clip_low = config.algorithm.clip_low;
  loss.clip_high = config.algorithm.clip_high;
  loss.importance_cap = config.algorithm.importance_cap;
  loss.negative_scale = config.algorithm.negative_scale;
  if (loss.name == policy::preset::cuda_l1) loss.kl_coefficient = config.algorithm.kl_weight;
  if (loss.divide_by == policy::denominator::constant) {
    loss.denominator_tokens = static_cast<double>(config.policy.max_new_tokens);
  }
  return loss;
}

learning_worker::learning_worker(policy::trainer trainer, welcome start,
                                 policy::loss_parameters loss, double temperature)
    : trainer_(std::move(trainer)),
      start_(std::move(start)),
      loss_(loss),
      temperature_(temperature) {}

base::expected<learning_worker> learning_worker::make(const welcome& start,
                                                      const run_config& config) {
  if (config.learner.device == "cuda") {
    return fail(errc::unavailable,
                "learner.device is cuda, but stage {} learns on the CPU so far: say auto or cpu",
                config.stage);
  }
  QUERN_TRY(auto arena, policy::parameter_arena::load(start.checkpoint));
  QUERN_TRY(const policy::tokenizer text, policy::tokenizer::load(start.checkpoint));
  const policy::loss_parameters loss = loss_parameters_of(config);
  QUERN_CHECK(policy::check(loss));
  QUERN_TRY(auto trainer,
            policy::trainer::make(std::move(arena), options_of(config, loss, text.vocab_size())));
  if (!start.optimizer.empty()) {
    QUERN_CHECK(policy::load_optimizer(trainer.optimizer(), start.optimizer));
  }
  trainer.set_version(start.version);
  learning_worker made(std::move(trainer), start, loss, config.policy.temperature);
  if (policy::needs_reference(loss)) {
    QUERN_TRY(made.reference_, policy::parameter_arena::load(start.reference));
    QUERN_TRY(made.reference_model_, policy::decoder::make(*made.reference_));
  }
  return made;
}

base::status learning_worker::add_reference_log_probs(
    std::vector<policy::training_sequence>& sequences) {
  const policy::trainer_options& options = trainer_.options();
  QUERN_TRY(auto log_probs, policy::token_log_probs(*reference_model_, reference_->weights,
                                                    sequences, options.pack, options.valid_tokens));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].reference_log_probs = std::move(log_probs[i]);
  }
  return {};
}

learner_ready learning_worker::ready() const {
  return {start_.epoch, trainer_.version(), trainer_.weights().hash()};
}

base::expected<step_done> learning_worker::step(const train_batch& batch) {
  if (batch.from != trainer_.version()) {
    return fail(errc::internal, "a batch for version {} came to a learner of version {}",
                batch.from, trainer_.version());
  }
  std::map<group_id, std::vector<double>> rewards;
  for (const training_sample& sample : batch.samples)
    rewards[sample.group].push_back(sample.reward);
  std::map<group_id, std::vector<double>> advantages;
  for (const auto& [group, of_group] : rewards) {
    advantages[group] = policy::group_advantages(loss_, of_group);
  }
  std::map<group_id, std::size_t> position;
  std::vector<policy::training_sequence> sequences;
  for (const training_sample& sample : batch.samples) {
    sequences.push_back(
        to_sequence(sample, advantages[sample.group][position[sample.group]++], temperature_));
  }
  if (reference_) QUERN_CHECK(add_reference_log_probs(sequences));
  QUERN_TRY(const policy::step_metrics metrics, trainer_.step(sequences));
  if (metrics.skipped) {
    return fail(errc::internal,
                "the gradient of the step from version {} is not finite: lower "
                "learner.learning_rate and resume",
                batch.from);
  }
  step_done done;
  done.epoch = batch.epoch;
  done.weights.epoch = batch.epoch;
  done.weights.version = trainer_.version();
  done.weights.hash = trainer_.weights().hash();
  QUERN_TRY(done.weights.file, policy::publish_weights(start_.weights_folder, trainer_.version(),
                                                       bytes_of(trainer_.weights())));
  done.metrics = base::dump(policy::to_json(metrics));
  return done;
}

policy::training_sequence to_sequence(const training_sample& sample, double advantage,
                                      double temperature) {
  policy::training_sequence sequence;
  sequence.tokens = from_block<std::int32_t>(sample.prompt_tokens);
  const std::size_t prompt = sequence.tokens.size();
  const auto completion = from_block<std::int32_t>(sample.tokens);
  sequence.tokens.insert(sequence.tokens.end(), completion.begin(), completion.end());
  const std::size_t total = sequence.tokens.size();
  sequence.loss_mask.assign(total, 0);
  const auto masked = static_cast<std::size_t>(sample.masked_tokens);
  std::fill(sequence.loss_mask.begin() + static_cast<std::ptrdiff_t>(prompt + masked),
            sequence.loss_mask.end(), std::uint8_t{1});
  sequence.advantage = advantage;
  sequence.temperature = temperature;
  sequence.behaviour_log_probs.assign(prompt, 0.0F);
  const auto log_probs = from_block<float>(sample.log_probs);
  sequence.behaviour_log_probs.insert(sequence.behaviour_log_probs.end(), log_probs.begin(),
                                      log_probs.end());
  sequence.versions.assign(total, 0);
  for (const wire_segment& part : sample.segments) {
    std::fill(sequence.versions.begin() + static_cast<std::ptrdiff_t>(prompt) + part.first_token,
              sequence.versions.end(), part.version);
  }
  return sequence;
}

checkpoint_saved learning_worker::save(const save_checkpoint& order) {
  checkpoint_saved saved{order.version, order.folder, ""};
  const auto write = [&]() -> base::status {
    if (order.version != trainer_.version()) {
      return fail(errc::internal, "version {} was to be saved, the learner is at {}", order.version,
                  trainer_.version());
    }
    const std::filesystem::path folder = order.folder;
    QUERN_CHECK(base::make_folders(folder / "model"));
    QUERN_CHECK(policy::save_model(trainer_.weights(), folder / "model", start_.checkpoint));
    return policy::save_optimizer(trainer_.optimizer(), folder / "optimizer.safetensors");
  };
  if (auto result = write(); !result) saved.problem = result.error().message;
  return saved;
}

}  // namespace quern::actors
