#include "actors/workers/learning_worker.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "actors/decide/step_watch.hpp"
#include "actors/defaults.hpp"
#include "actors/workers/element_type.hpp"
#include "actors/workers/generator_setup.hpp"
#include "actors/workers/trainer_setup.hpp"
#include "actors/workers/worker_end.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "env/device/gpu_class.hpp"
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

constexpr const char* idle_phase = "waiting for a batch";
/// Weights, master weights and two moments, in float32.
constexpr std::uint64_t checkpoint_copies = 4;

/// The process of a rank sees its own GPU alone.
base::expected<device_share> learner_share(const run_config& config, std::int32_t rank) {
  if (config.learner.device != "cuda") return device_share();
  QUERN_TRY(const auto gpus, learner_devices(config));
  QUERN_TRY(const placement hosts, placement_of(config));
  const auto place = static_cast<std::size_t>(rank);
  return device_share::make(config, hosts.ranks[place], static_cast<int>(gpus[place]), 0);
}

/// A forward and a backward pass multiply and add with each weight three times for each token.
constexpr double operations_a_weight = 6;

/// The learner's numbers, and how fast they were computed. `peak`: of the cards of all ranks.
base::json with_speed(const policy::step_metrics& metrics, const policy::model_config& model,
                      double seconds, std::optional<double> peak) {
  base::json told = policy::to_json(metrics);
  told["step_s"] = seconds;
  const double flops = operations_a_weight * static_cast<double>(policy::parameter_count(model)) *
                       metrics.forward_rows / seconds;
  told["flops_per_s"] = flops;
  if (peak) told["mfu"] = flops / *peak;
  return told;
}

/// Of the cards of all ranks, which are of a kind, in bfloat16; none on a CPU, and of cards that
/// this build does not know.
std::optional<double> peak_of_cards(const run_config& config, std::int32_t rank) {
  if (config.learner.device != "cuda") return std::nullopt;
  const auto gpus = learner_devices(config);
  if (!gpus || static_cast<std::size_t>(rank) >= gpus->size()) return std::nullopt;
  const auto its_class =
      env::gpu_device_class_of(static_cast<int>((*gpus)[static_cast<std::size_t>(rank)]));
  if (!its_class) return std::nullopt;
  const auto one = env::peak_bf16_flops(*its_class);
  if (!one) return std::nullopt;
  return *one * static_cast<double>(config.learner.ranks);
}

}  // namespace

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
  QUERN_TRY(rank_group group, join_ranks(start.rendezvous, config, rank, here, device));
  group.guard->at("loading", start.version);
  const std::uint64_t bytes =
      bytes_at(start.checkpoint) + bytes_at(start.optimizer) + bytes_at(start.reference);
  std::optional<rank_guard::busy> loading(std::in_place, group.guard, "loading",
                                          defaults::phase_deadline, bytes);
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
  learning_worker made(std::move(group), std::move(trainer), start, loss, config.policy.temperature,
                       rank);
  made.peak_ = peak_of_cards(config, rank);
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
  if (config.actors.exact) {
    QUERN_TRY(made.scorer_, policy::exact_scorer::make(
                                made.trainer_.weights(), start.version,
                                generator_options_of(config, model, text.vocab_size(), device)));
  }
  loading.reset();
  // Nobody is ready before all are.
  if (made.group_.ranks) {
    QUERN_CHECK(made.group_.link->gather("start", with_bytes(defaults::load_deadline, bytes)));
    QUERN_CHECK(made.group_.ranks->barrier("start"));
  }
  made.group_.guard->at(idle_phase, start.version);
  return made;
}

base::status learning_worker::add_reference_log_probs(
    std::vector<policy::training_sequence>& sequences) {
  // A part of the step, which control judges as a whole by the steps before it.
  const rank_guard::busy now(group_.guard, "log-probs of the reference", rank_guard::without_limit);
  const policy::trainer_options& options = trainer_.options();
  QUERN_TRY(auto log_probs,
            policy::token_log_probs(*reference_model_, reference_->weights, sequences, options.pack,
                                    options.valid_tokens, options.loss_chunk));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].reference_log_probs = std::move(log_probs[i]);
  }
  return {};
}

base::status learning_worker::add_exact_log_probs(
    std::vector<policy::training_sequence>& sequences) {
  const rank_guard::busy now(group_.guard, "exact log-probs", rank_guard::without_limit);
  QUERN_CHECK(scorer_->take(trainer_.weights(), trainer_.version()));
  return scorer_->score(sequences);
}

learner_ready learning_worker::ready() const {
  return {start_.incarnation, trainer_.version(), trainer_.weights().hash()};
}

std::string learning_worker::where() const {
  return group_.guard->where();
}

void learning_worker::take_turn(std::optional<device_share::hold>& turn) {
  if (!share_.shared()) return;
  const rank_guard::busy now(group_.guard, "waiting for its turn on the GPU",
                             defaults::turn_deadline);
  turn.emplace(share_);
}

base::expected<step_done> learning_worker::step(const train_batch& batch) {
  if (batch.from != trainer_.version()) {
    return fail(errc::internal, "a batch for version {} came to a learner of version {}",
                batch.from, trainer_.version());
  }
  group_.guard->at("preparing a batch", trainer_.version());
  if (waited_before_ < 0) waited_before_ = share_.waited_ns();
  std::optional<device_share::hold> turn;
  take_turn(turn);
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
    const double advantage = advantages[sample.group][position[sample.group]++];
    QUERN_TRY(auto sequence, to_sequence(sample, advantage, temperature_));
    sequences.push_back(std::move(sequence));
  }
  const policy::batch_totals totals = policy::count(sequences);
  if (group_.ranks) sequences = share_of_rank(std::move(sequences), *group_.ranks);
  if (reference_) QUERN_CHECK(add_reference_log_probs(sequences));
  if (scorer_) QUERN_CHECK(add_exact_log_probs(sequences));
  group_.guard->at("step", trainer_.version());
  const base::steady_clock clock;
  const base::nanoseconds_t begun = clock.now_ns();
  QUERN_TRY(const policy::step_metrics metrics, trainer_.step(sequences, totals));
  const double seconds = static_cast<double>(clock.now_ns() - begun) / 1e9;
  group_.guard->at(idle_phase, trainer_.version());
  step_done done;
  done.incarnation = batch.incarnation;
  done.batch = batch.number;
  done.left_out = metrics.skipped;
  done.weights.incarnation = batch.incarnation;
  done.weights.version = trainer_.version();
  if (rank_ > 0) return done;
  done.metrics = base::dump(with_speed(metrics, trainer_.weights().config, seconds, peak_));
  // A generator may hold the last weights but one until it has had its turn on the GPU.
  const rank_guard::busy now(group_.guard, "publishing weights",
                             defaults::turn_deadline + defaults::phase_deadline,
                             bytes_of_weights());
  done.device_wait_ns = share_.waited_ns() - waited_before_;
  done.weights.hash = trainer_.weights().hash();
  if (done.left_out) return done;
  newest_ = done.weights;
  QUERN_CHECK(publish());
  if (!offered_)
    base::log_info("learner",
                   "version {} is not offered to generators yet: links still send older ones from "
                   "both copies of the weights",
                   newest_.version);
  done.weights = newest_;
  done.offered = offered_;
  return done;
}

base::expected<std::optional<weights_ready>> learning_worker::offer(const offer_weights& order) {
  if (!links_ || order.incarnation != newest_.incarnation) return std::nullopt;
  if (!offered_) {
    std::optional<device_share::hold> turn;
    take_turn(turn);
    const rank_guard::busy now(group_.guard, "publishing weights", defaults::phase_deadline,
                               bytes_of_weights());
    QUERN_CHECK(publish());
  }
  return offered_ ? std::optional(newest_) : std::nullopt;
}

base::status learning_worker::open_link(const open_weight_link& order, const run_config& config) {
  if (!links_ || order.incarnation != start_.incarnation) return {};
  const rank_guard::busy now(group_.guard, "opening a link for weights", defaults::phase_deadline);
  QUERN_TRY(device_share share, learner_share(config, rank_));
  links_->open(order.address, std::move(share));
  return {};
}

std::uint64_t learning_worker::bytes_of_weights() const {
  return trainer_.weights().flat.nbytes();
}

/// The newest version: over links, or in a file that is named in `newest_`.
base::status learning_worker::publish() {
  if (links_) {
    offered_ = links_->publish(trainer_.weights(), newest_.version);
  } else {
    QUERN_TRY(newest_.file, write_file());
    offered_ = true;
  }
  // Links copy on the GPU, which belongs to evaluators again when this turn ends.
  if (share_.shared()) policy::wait_for(trainer_.weights().flat.device());
  return {};
}

base::expected<std::string> learning_worker::write_file() const {
  const policy::parameter_arena& weights = trainer_.weights();
  const policy::weight_dtype type = file_type_of(weights.flat.scalar_type());
  const at::Tensor host = weights.flat.to(at::kCPU, element_type_of(type)).contiguous();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(host.const_data_ptr()),
                                         host.nbytes());
  if (!group_.ranks)
    return policy::publish_weights(start_.weights_folder, trainer_.version(), type, bytes);
  // Generators hold them without the padding that shards need.
  QUERN_TRY(const auto target, policy::make_catalogue(weights.config, weights.layout.dtype));
  QUERN_TRY(auto plan, policy::make_plan(weights.layout, target));
  // The same ranges of elements, whatever their type.
  plan.dtype = type;
  std::vector<std::byte> plain(static_cast<std::size_t>(target.elements) * policy::size_of(type));
  QUERN_CHECK(policy::run_plan(plan, bytes, plain));
  return policy::publish_weights(start_.weights_folder, trainer_.version(), type, plain);
}

base::expected<policy::training_sequence> to_sequence(const training_sample& sample,
                                                      double advantage, double temperature) {
  if (auto whole = check_segments(sample.segments, sample.tokens, sample.log_probs); !whole)
    return base::in_context(fmt::format("sample {}", sample.sample), std::move(whole.error()));
  const std::int64_t sampled = policy_tokens(sample.segments);
  std::vector<std::int64_t> versions(static_cast<std::size_t>(sampled), 0);
  for (const wire_segment& part : sample.versions) {
    if (part.first_token < 0 || part.first_token >= sampled) {
      return fail(errc::invalid_argument,
                  "sample {}: version {} begins at token {} of the policy's {}", sample.sample,
                  part.version, part.first_token, sampled);
    }
    std::fill(versions.begin() + part.first_token, versions.end(), part.version);
  }
  policy::training_sequence sequence;
  sequence.tokens = from_block<std::int32_t>(sample.tokens);
  sequence.loss_mask = loss_mask(sample.segments);
  sequence.advantage = advantage;
  sequence.temperature = temperature;
  sequence.behaviour_log_probs =
      by_token(sample.segments, from_block<float>(sample.log_probs), 0.0F);
  sequence.versions = by_token(sample.segments, versions, std::int64_t{0});
  return sequence;
}

void learning_worker::save(const save_checkpoint& order,
                           std::function<void(checkpoint_saved)> done) {
  checkpoint_saved saved{order.version, order.folder, "", order.incarnation};
  if (order.version != trainer_.version()) {
    saved.problem = fmt::format("version {} was to be saved, the learner is at {}", order.version,
                                trainer_.version());
    return done(saved);
  }
  const std::filesystem::path folder = order.folder;
  const rank_guard::busy now(group_.guard, "copying a checkpoint", defaults::checkpoint_timeout,
                             checkpoint_copies * sizeof(float) *
                                 static_cast<std::uint64_t>(trainer_.weights().flat.numel()));
  writer_->wait();  // the copies of the checkpoint before it are gone
  std::function<base::status()> model;
  if (rank_ == 0) {
    model = [copy = policy::for_files(trainer_.weights()), folder, from = start_.checkpoint,
             largest = largest_file_]() -> base::status {
      return caught("the model of a checkpoint", [&]() -> base::status {
        QUERN_CHECK(base::make_folders(folder / "model"));
        return policy::save_model(copy, folder / "model", from, {}, largest);
      });
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
