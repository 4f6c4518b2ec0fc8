#include "actors/workers/learning_worker.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "actors/workers/element_type.hpp"
#include "actors/workers/trainer_setup.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/loss/advantage.hpp"
#include "policy/text/tokenizer.hpp"
#include "policy/weights/plan.hpp"
#include "policy/weights/weight_channel.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;

/// The process of a rank sees its own GPU alone.
base::expected<device_share> learner_share(const run_config& config, std::int32_t rank) {
  if (config.learner.device != "cuda") return device_share();
  QUERN_TRY(const auto gpus, learner_devices(config));
  QUERN_TRY(const placement hosts, placement_of(config));
  const auto place = static_cast<std::size_t>(rank);
  return device_share::make(config, hosts.ranks[place], static_cast<int>(gpus[place]), 0);
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

learning_worker::learning_worker(rank_group group, policy::trainer trainer, welcome start,
                                 policy::loss_parameters loss, double temperature,
                                 std::int32_t rank)
    : group_(std::move(group)),
      trainer_(std::move(trainer)),
      start_(std::move(start)),
      loss_(loss),
      temperature_(temperature),
      rank_(rank),
      writer_(std::make_unique<policy::checkpoint_writer>(group_.link.get())) {}

base::expected<learning_worker> learning_worker::make(const welcome& start,
                                                      const run_config& config, std::int32_t rank,
                                                      const own_address& here) {
  QUERN_TRY(const at::Device device,
            policy::choose_device(config.learner.device == "cuda" ? "cuda" : "cpu"));
  QUERN_TRY(rank_group group, join_ranks(start.meeting, config, rank, here, device));
  policy::layout place;
  place.ranks = static_cast<std::int32_t>(config.learner.ranks);
  QUERN_TRY(const policy::model_config model, policy::load_model_config(start.checkpoint));
  QUERN_TRY(const memory_share memory, plan_memory(model, config, rank, device));
  base::log_info("learner", "memory on {}:\n{}", device.str(), memory.plan.table(memory.available));
  const at::ScalarType type = element_type_of(config);
  QUERN_TRY(auto arena, policy::parameter_arena::load(start.checkpoint, type, device, place));
  QUERN_TRY(const policy::tokenizer text, policy::tokenizer::load(start.checkpoint));
  const policy::loss_parameters loss = loss_parameters_of(config);
  QUERN_CHECK(policy::check(loss));
  policy::parallel_context context;
  context.dp = place.ranks;
  context.dp_rank = rank;
  QUERN_TRY(auto trainer, policy::trainer::make(std::move(arena),
                                                trainer_options_of(config, loss, text.vocab_size()),
                                                context, group.ranks.get()));
  if (!start.optimizer.empty()) QUERN_CHECK(load_optimizer_state(trainer, start.optimizer));
  trainer.set_version(start.version);
  // Nobody is ready before all are.
  if (group.ranks) QUERN_CHECK(group.ranks->barrier("start"));
  learning_worker made(std::move(group), std::move(trainer), start, loss, config.policy.temperature,
                       rank);
  QUERN_TRY(made.share_, learner_share(config, rank));
  QUERN_TRY(const bool links, weights_by_link(config));
  if (links && rank == 0) {
    QUERN_TRY(made.links_, weight_sender::make(made.trainer_.weights(), start.version, here));
  }
  made.largest_file_ = static_cast<std::uint64_t>(config.storage.shard_mb) * 1'000'000;
  if (policy::needs_reference(loss)) {
    QUERN_TRY(made.reference_, policy::parameter_arena::load(start.reference, type, device));
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
  if (waited_before_ < 0) waited_before_ = share_.waited_ns();
  const device_share::hold turn(share_);
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
  const policy::batch_totals totals = policy::count(sequences);
  if (group_.ranks) sequences = share_of_rank(std::move(sequences), *group_.ranks);
  if (reference_) QUERN_CHECK(add_reference_log_probs(sequences));
  if (group_.link) group_.link->busy(false);
  QUERN_TRY(const policy::step_metrics metrics, trainer_.step(sequences, totals));
  if (group_.link) group_.link->busy(true);
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
  if (rank_ > 0) return done;
  done.device_wait_ns = share_.waited_ns() - waited_before_;
  done.weights.hash = trainer_.weights().hash();
  QUERN_TRY(done.weights.file, publish());
  // Links copy on the GPU, which belongs to evaluators again when this turn ends.
  if (share_.shared()) policy::wait_for(trainer_.weights().flat.device());
  done.metrics = base::dump(policy::to_json(metrics));
  return done;
}

base::status learning_worker::open_link(const open_weight_link& order, const run_config& config) {
  if (!links_ || order.epoch != start_.epoch) return {};
  QUERN_TRY(device_share share, learner_share(config, rank_));
  links_->open(order.address, std::move(share));
  return {};
}

/// The file that they are in; empty where links carry them.
base::expected<std::string> learning_worker::publish() {
  if (!links_) return write_file();
  links_->publish(trainer_.weights(), trainer_.version());
  return std::string();
}

base::expected<std::string> learning_worker::write_file() const {
  const policy::parameter_arena& weights = trainer_.weights();
  const at::Tensor floats = policy::host_floats(weights.flat);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(floats.const_data_ptr()),
                                         floats.nbytes());
  if (!group_.ranks)
    return policy::publish_weights(start_.weights_folder, trainer_.version(), bytes);
  // Generators hold them without the padding that shards need.
  QUERN_TRY(const auto target, policy::make_catalogue(weights.config, weights.layout.dtype));
  QUERN_TRY(const auto plan, policy::make_plan(weights.layout, target));
  std::vector<std::byte> plain(target.bytes());
  QUERN_CHECK(policy::run_plan(plan, bytes, plain));
  return policy::publish_weights(start_.weights_folder, trainer_.version(), plain);
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

void learning_worker::save(const save_checkpoint& order,
                           std::function<void(checkpoint_saved)> done) {
  checkpoint_saved saved{order.version, order.folder, ""};
  if (order.version != trainer_.version()) {
    saved.problem = fmt::format("version {} was to be saved, the learner is at {}", order.version,
                                trainer_.version());
    return done(saved);
  }
  const std::filesystem::path folder = order.folder;
  writer_->wait();  // the copies of the checkpoint before it are gone
  std::function<base::status()> model;
  if (rank_ == 0) {
    model = [copy = policy::for_files(trainer_.weights()), folder, from = start_.checkpoint,
             largest = largest_file_]() -> base::status {
      QUERN_CHECK(base::make_folders(folder / "model"));
      return policy::save_model(copy, folder / "model", from, {}, largest);
    };
  }
  const auto told = [saved, done = std::move(done), rank = rank_,
                     ranks = group_.ranks != nullptr](base::status result) mutable {
    if (rank > 0 || (!result && ranks && result.error().code == errc::unavailable)) return;
    if (!result) saved.problem = result.error().message;
    done(saved);
  };
  writer_->write(policy::snapshot(trainer_.optimizer()), folder / "optimizer", std::move(model),
                 told);
}

}  // namespace quern::actors
