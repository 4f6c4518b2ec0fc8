// The optimiser step.
#include "policy/engine/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "policy/collectives/gradient_buckets.hpp"
#include "policy/engine/attention.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/engine/log_probs.hpp"
#include "policy/engine/products.hpp"
#include "policy/engine/token_sums.hpp"
#include "policy/loss/token_loss.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

double trained_tokens(const training_sequence& s) {
  return static_cast<double>(
      std::count_if(s.loss_mask.begin(), s.loss_mask.end(), [](std::uint8_t m) { return m != 0; }));
}

}  // namespace

/// What one thread needs.
struct worker {
  decoder model;
  output_head head;
  parameter_arena gradients;
  at::Tensor d_hidden;
  token_sums total;
};

/// Of a backward pass: on the device, over all ranks, so that nothing waits for it before the
/// optimiser does.
struct pass_totals {
  at::Tensor sums;    ///< token_sums::sums, then the square of the gradient's norm
  at::Tensor maxima;  ///< token_sums::maxima
  at::Tensor norm;    ///< scalar
};

struct trainer::state {
  parameter_arena arena;
  trainer_options options;
  adamw optimizer;
  std::vector<worker> workers;
  communicator* group = nullptr;
  /// Of this rank's shard, summed over threads and ranks; with one rank the first worker's arena.
  at::Tensor shard_gradients;
  std::vector<pending> reducing;
  base::status reduced;  ///< the first error of starting a reduction
  std::int64_t version = 0;

  base::status check_batch(std::span<const training_sequence> batch,
                           const batch_totals& totals) const;
  void run_micro_batch(worker& w, const micro_batch& batch,
                       std::span<const training_sequence> sequences, const batch_totals& totals,
                       const bucket_done& done);
  void run_all(std::span<const micro_batch> batches, std::span<const training_sequence> sequences,
               const batch_totals& totals);
  void reduce(std::size_t bucket, std::size_t threads);
  base::expected<pass_totals> sum_up(token_sums here);
  base::expected<pass_totals> backward(std::span<const training_sequence> batch,
                                       const batch_totals& totals);
  base::status gather(const at::Tensor& shard, at::Tensor& flat, std::string_view what);
  void enter(std::string_view phase) const {
    if (group != nullptr) group->link().at(phase, version);
  }
  void moved() const {
    if (group != nullptr) group->link().progress();
  }
};

base::status trainer::state::check_batch(std::span<const training_sequence> batch,
                                         const batch_totals& totals) const {
  const batch_totals here = count(batch);
  if (here.tokens == 0 && (group == nullptr || totals.tokens == 0))
    return fail(errc::invalid_argument, "a batch of {} sequences without a trained token",
                batch.size());
  if (totals.tokens < here.tokens || totals.sequences < here.sequences)
    return fail(errc::invalid_argument,
                "totals of {} tokens and {} sequences, but the batch alone has {} and {}; count "
                "before filtering",
                totals.tokens, totals.sequences, here.tokens, here.sequences);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (options.loss.name != preset::sft && batch[i].behaviour_log_probs.empty())
      return fail(errc::invalid_argument,
                  "sequence {}: no behaviour log-probs, but loss {} needs them", i,
                  to_string(options.loss.name));
    if (needs_reference(options.loss) && batch[i].reference_log_probs.empty())
      return fail(errc::invalid_argument,
                  "sequence {}: no reference log-probs, but kl_coefficient is {}", i,
                  options.loss.kl_coefficient);
  }
  return {};
}

void trainer::state::run_micro_batch(worker& w, const micro_batch& batch,
                                     std::span<const training_sequence> sequences,
                                     const batch_totals& totals, const bucket_done& done) {
  const at::Tensor hidden = w.model.forward(arena.weights, batch.rows, true);
  moved();
  at::Tensor d_hidden = take(w.d_hidden, hidden.sizes(), wide_options(hidden)).zero_();
  const auto visit = [&](const head_chunk& chunk) {
    moved();
    std::int32_t current = -1;
    double weight = 0;
    for (std::size_t i = 0; i < chunk.log_probs.size(); ++i) {
      const prediction& p = batch.predictions[chunk.first + i];
      const training_sequence& s = sequences[static_cast<std::size_t>(p.sequence)];
      if (p.sequence != current) {
        weight = s.weight *
                 token_weight(options.loss, totals.tokens, totals.sequences, trained_tokens(s));
        current = p.sequence;
      }
      chunk.gradients[i] = visit_token(options.loss, s, static_cast<std::size_t>(p.token), weight,
                                       chunk.log_probs[i], chunk.entropies[i], version, w.total);
    }
  };
  w.head.run(hidden, arena.weights.head, batch, sequences, visit, &d_hidden,
             &w.gradients.weights.head);
  w.model.backward(arena.weights, batch.rows, d_hidden.to(hidden.scalar_type()),
                   w.gradients.weights, done);
  w.total.rows += static_cast<double>(batch.rows.rows());
}

/// All threads have their part of the bucket: adds them up, in order, and hands it to the ranks.
void trainer::state::reduce(std::size_t bucket, std::size_t threads) {
  const policy::bucket& range = arena.layout.buckets[bucket];
  at::Tensor sum = workers[0].gradients.flat.narrow(0, range.begin, range.size);
  for (std::size_t i = 1; i < threads; ++i)
    sum.add_(workers[i].gradients.flat.narrow(0, range.begin, range.size));
  moved();
  if (group == nullptr || !reduced) return;
  const shard_map& shard = optimizer.shard;
  const std::int64_t count = shard.ranges[bucket].end - shard.ranges[bucket].begin;
  auto begun = group->reduce_scatter(shard_gradients.narrow(0, shard.begins[bucket], count), sum,
                                     "gradients of " + range.name);
  if (begun) {
    reducing.push_back(std::move(*begun));
  } else {
    reduced = tl::make_unexpected(std::move(begun).error());
  }
}

void trainer::state::run_all(std::span<const micro_batch> batches,
                             std::span<const training_sequence> sequences,
                             const batch_totals& totals) {
  const std::size_t threads = std::clamp<std::size_t>(batches.size(), 1, workers.size());
  gradient_buckets order(arena.layout.buckets.size(), threads);
  const bucket_done done = [&](std::size_t bucket) {
    order.finished(bucket, [&](std::size_t ready) { reduce(ready, threads); });
  };
  const auto work = [&](std::size_t index) {
    worker& w = workers[index];
    w.gradients.flat.zero_();
    w.total = {};
    for (std::size_t i = index; i < batches.size(); i += threads)
      run_micro_batch(w, batches[i], sequences, totals,
                      i + threads < batches.size() ? bucket_done() : done);
    if (index < batches.size()) return;
    for (std::size_t bucket = arena.layout.buckets.size(); bucket-- > 0;)
      done(bucket);
  };
  // Every thread comes to its end before what one of them threw goes on.
  std::vector<std::exception_ptr> thrown(threads);
  const auto guarded = [&](std::size_t index) {
    try {
      work(index);
    } catch (...) {
      thrown[index] = std::current_exception();
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i)
    others.emplace_back([&guarded, i] {
      at::init_num_threads();
      guarded(i);
    });
  guarded(0);
  others.clear();
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
  for (std::size_t i = 1; i < threads; ++i)
    workers[0].total.add(workers[i].total);
}

base::expected<pass_totals> trainer::state::sum_up(token_sums here) {
  pass_totals all;
  const auto sums = here.sums();
  const auto maxima = here.maxima();
  const auto device = arena.flat.device();
  all.sums = at::zeros({static_cast<std::int64_t>(sums.size()) + 1}, at::kDouble);
  std::copy(sums.begin(), sums.end(), all.sums.mutable_data_ptr<double>());
  all.sums = all.sums.to(device);
  all.maxima =
      at::tensor(at::ArrayRef<double>(maxima.data(), maxima.size()), at::kDouble).to(device);
  at::Tensor square = all.sums[static_cast<std::int64_t>(sums.size())];
  square.copy_(adamw::squares(shard_gradients));
  if (group != nullptr) {
    QUERN_TRY(pending adding, group->all_reduce(all.sums, reduction::sum, "sums of the step"));
    QUERN_CHECK(adding.wait());
    QUERN_TRY(pending comparing,
              group->all_reduce(all.maxima, reduction::max, "maxima of the step"));
    QUERN_CHECK(comparing.wait());
  }
  all.norm = square.sqrt();
  return all;
}

base::expected<pass_totals> trainer::state::backward(std::span<const training_sequence> batch,
                                                     const batch_totals& totals) {
  QUERN_CHECK(check_batch(batch, totals));
  enter("backward");
  std::vector<training_sequence> moving;
  std::size_t idle = 0;
  if (options.skip_idle && !needs_reference(options.loss)) {
    const auto is_idle = [](const training_sequence& q) { return q.advantage * q.weight == 0; };
    idle = static_cast<std::size_t>(std::count_if(batch.begin(), batch.end(), is_idle));
    if (idle > 0) {
      std::remove_copy_if(batch.begin(), batch.end(), std::back_inserter(moving), is_idle);
      batch = moving;
    }
  }
  QUERN_TRY(const auto batches, pack(arena.config, batch, options.pack, arena.flat.device()));
  run_all(batches, batch, totals);
  auto ended = std::exchange(reduced, {});
  for (pending& one : reducing)
    if (auto result = one.wait(); ended) ended = result;
  reducing.clear();
  QUERN_CHECK(ended);
  token_sums here = workers[0].total;
  here.sequences = policy::count(batch).sequences;
  here.idle_sequences = static_cast<double>(idle);
  return sum_up(here);
}

base::status trainer::state::gather(const at::Tensor& shard, at::Tensor& flat,
                                    std::string_view what) {
  if (group == nullptr) return {};
  std::vector<pending> gathering;
  for (std::size_t i = 0; i < arena.layout.buckets.size(); ++i) {
    const policy::bucket& range = arena.layout.buckets[i];
    const element_range part = optimizer.shard.ranges[i];
    QUERN_TRY(pending begun,
              group->all_gather(flat.narrow(0, range.begin, range.size),
                                shard.narrow(0, optimizer.shard.begins[i], part.end - part.begin),
                                std::string(what) + " of " + range.name));
    gathering.push_back(std::move(begun));
  }
  for (pending& one : gathering)
    QUERN_CHECK(one.wait());
  return {};
}

base::expected<trainer> trainer::make(parameter_arena arena, const trainer_options& options,
                                      const parallel_context& context, communicator* group) {
  QUERN_CHECK(check(options.loss));
  QUERN_CHECK(check(context));
  if (context.dp != (group == nullptr ? 1 : group->ranks()) ||
      context.dp_rank != (group == nullptr ? 0 : group->rank()))
    return fail(errc::invalid_argument,
                "rank {} of dp = {}, but the communicator is of rank {} of {}", context.dp_rank,
                context.dp, group == nullptr ? 0 : group->rank(),
                group == nullptr ? 1 : group->ranks());
  if (arena.layout.place.ranks != context.dp)
    return fail(errc::invalid_argument, "an arena laid out for {} ranks, but dp is {}",
                arena.layout.place.ranks, context.dp);
  if (options.loss_chunk < 1 || options.workers < 1 || options.workers > 256)
    return fail(errc::invalid_argument,
                "loss_chunk {} and workers {}: both at least 1, workers at most 256",
                options.loss_chunk, options.workers);
  if (options.valid_tokens < 0 || options.valid_tokens > arena.config.vocab_size)
    return fail(errc::invalid_argument, "valid_tokens is {}, but the vocabulary has {} rows",
                options.valid_tokens, arena.config.vocab_size);
  auto s = std::make_unique<state>();
  const at::TensorOptions wide = wide_options(arena.flat);
  QUERN_TRY(s->optimizer, adamw::make(arena, options.optimizer, context.dp_rank));
  for (std::int32_t i = 0; i < options.workers; ++i) {
    QUERN_TRY(decoder model, decoder::make(arena, context, options.recompute));
    s->workers.push_back({std::move(model),
                          output_head(options.loss_chunk, options.valid_tokens),
                          arena.empty_as(wide_type(arena.flat.scalar_type()), wide.device()),
                          {},
                          {}});
  }
  s->shard_gradients = group == nullptr ? s->workers[0].gradients.flat
                                        : at::zeros({s->optimizer.shard.elements}, wide);
  s->group = group;
  s->arena = std::move(arena);
  s->options = options;
  return trainer(std::move(s));
}

base::expected<step_metrics> trainer::gradients(std::span<const training_sequence> batch,
                                                const batch_totals& totals) {
  QUERN_TRY(const pass_totals pass, state_->backward(batch, totals));
  return read(pass);
}

step_metrics trainer::read(const pass_totals& pass) const {
  const at::Tensor sums = pass.sums.to(at::kCPU), maxima = pass.maxima.to(at::kCPU);
  step_metrics m =
      metrics_of(token_sums::of(sums.const_data_ptr<double>(), maxima.const_data_ptr<double>()));
  m.version = state_->version;
  m.grad_norm = pass.norm.item<double>();
  return m;
}

base::expected<step_metrics> trainer::step(std::span<const training_sequence> batch) {
  return step(batch, count(batch));
}

base::expected<step_metrics> trainer::step(std::span<const training_sequence> batch,
                                           const batch_totals& totals) {
  state& s = *state_;
  QUERN_TRY(const pass_totals pass, s.backward(batch, totals));
  s.enter("optimiser");
  const double rate = s.optimizer.step(s.shard_gradients, pass.norm);
  QUERN_CHECK(s.gather(s.optimizer.result(), s.arena.flat, "weights"));
  step_metrics m = read(pass);
  if (!std::isfinite(m.grad_norm)) {
    s.optimizer.take_back();
    m.skipped = true;
    return m;
  }
  m.learning_rate = rate;
  m.version = ++s.version;
  return m;
}

base::status trainer::gather_gradients() {
  return state_->gather(state_->shard_gradients, state_->workers[0].gradients.flat, "gradients");
}

base::status trainer::gather_weights() {
  state_->optimizer.round_master();
  return state_->gather(state_->optimizer.result(), state_->arena.flat, "weights");
}

base::expected<std::vector<std::vector<float>>> trainer::log_probs(
    std::span<const training_sequence> batch) {
  state& s = *state_;
  return token_log_probs(s.workers[0].model, s.arena.weights, batch, s.options.pack,
                         s.options.valid_tokens, s.options.loss_chunk);
}

const parameter_arena& trainer::weights() const {
  return state_->arena;
}
const parameter_arena& trainer::gradient_arena() const {
  return state_->workers[0].gradients;
}
communicator* trainer::group() {
  return state_->group;
}
adamw& trainer::optimizer() {
  return state_->optimizer;
}
trainer_options& trainer::options() {
  return state_->options;
}
std::int64_t trainer::version() const {
  return state_->version;
}
void trainer::set_version(std::int64_t version) {
  state_->version = version;
}

trainer::trainer(std::unique_ptr<state> parts) : state_(std::move(parts)) {}
trainer::trainer(trainer&&) noexcept = default;
trainer& trainer::operator=(trainer&&) noexcept = default;
trainer::~trainer() = default;

}  // namespace quern::policy
