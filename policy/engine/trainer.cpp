// The optimiser step.
#include "policy/engine/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include "policy/collectives/gradient_buckets.hpp"
#include "policy/engine/attention.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/engine/log_probs.hpp"
#include "policy/engine/loss_rows.hpp"
#include "policy/engine/products.hpp"
#include "policy/engine/shard_exchange.hpp"
#include "policy/engine/token_sums.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

}  // namespace

/// What one thread needs.
struct worker {
  decoder model;
  output_head head;
  parameter_arena gradients;
  at::Tensor d_hidden;
  token_sums total;
  row_totals of_rows;  ///< the same, of tokens whose losses are tensors
};

/// Of a backward pass: on the device, over all ranks (maxima once the exchange is settled), so that
/// the host waits for nothing before the optimiser is started.
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
  shard_exchange exchange;
  std::int64_t version = 0;

  base::status check_batch(std::span<const training_sequence> batch,
                           const batch_totals& totals) const;
  void run_micro_batch(worker& w, const micro_batch& batch,
                       std::span<const training_sequence> sequences, const batch_totals& totals,
                       const bucket_done& done);
  void run_all(std::span<const micro_batch> batches, std::span<const training_sequence> sequences,
               const batch_totals& totals);
  void reduce(std::size_t bucket, std::size_t threads);
  pass_totals sum_up(token_sums here);
  base::expected<pass_totals> backward(std::span<const training_sequence> batch,
                                       const batch_totals& totals);
  void enter(std::string_view phase) const {
    if (group != nullptr) group->at(phase, version);
  }
  [[nodiscard]] bool losses_as_tensors() const {
    return options.losses_as_tensors.value_or(arena.flat.is_cuda());
  }
  void moved() const {
    if (group != nullptr) group->progress();
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
        weight = weight_of(options.loss, s, totals);
        current = p.sequence;
      }
      chunk.gradients[i] = visit_token(options.loss, s, static_cast<std::size_t>(p.token), weight,
                                       chunk.log_probs[i], chunk.entropies[i], version, w.total);
    }
  };
  if (losses_as_tensors()) {
    const loss_rows rows(options.loss, batch, sequences, totals, version, hidden.device());
    const auto queue = [&](const head_rows& chunk) {
      moved();
      return rows.gradients(chunk.first, chunk.log_probs, chunk.entropies, w.of_rows);
    };
    w.head.run_rows(hidden, arena.weights.head, batch, sequences, queue, &d_hidden,
                    &w.gradients.weights.head);
  } else {
    w.head.run(hidden, arena.weights.head, batch, sequences, visit, &d_hidden,
               &w.gradients.weights.head);
  }
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
  exchange.reduce(bucket, workers[0].gradients.flat, shard_gradients);
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
    if (losses_as_tensors()) w.of_rows = row_totals::zeros(arena.flat.device());
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
  for (std::size_t i = 1; i < threads; ++i) {
    workers[0].total.add(workers[i].total);
    if (losses_as_tensors()) workers[0].of_rows.add(workers[i].of_rows);
  }
}

pass_totals trainer::state::sum_up(token_sums here) {
  exchange.follow_reduced();
  pass_totals all;
  const auto sums = here.sums();
  const auto maxima = here.maxima();
  std::array<double, token_sums::added + 1> told{};
  std::copy(sums.begin(), sums.end(), told.begin());
  all.sums = upload(told, arena.flat.device());
  all.maxima = upload(maxima, arena.flat.device());
  if (losses_as_tensors()) {
    const row_totals& rows = workers[0].of_rows;
    all.sums.narrow(0, 0, rows.sums.numel()).add_(rows.sums);
    all.maxima = at::maximum(all.maxima, rows.maxima);
  }
  at::Tensor square = all.sums[static_cast<std::int64_t>(sums.size())];
  square.copy_(adamw::squares(shard_gradients));
  exchange.all_reduce(all.maxima, reduction::max, "maxima of the step", false);
  exchange.all_reduce(all.sums, reduction::sum, "sums of the step", true);
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
  token_sums here = workers[0].total;
  here.sequences = policy::count(batch).sequences;
  here.idle_sequences = static_cast<double>(idle);
  return sum_up(here);
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
                          {},
                          {}});
  }
  s->shard_gradients = group == nullptr ? s->workers[0].gradients.flat
                                        : at::zeros({s->optimizer.shard.elements}, wide);
  s->group = group;
  s->exchange = shard_exchange(group, arena.layout, s->optimizer.shard);
  s->arena = std::move(arena);
  s->options = options;
  return trainer(std::move(s));
}

base::expected<step_metrics> trainer::gradients(std::span<const training_sequence> batch,
                                                const batch_totals& totals) {
  const auto pass = state_->backward(batch, totals);
  const base::status exchanged = state_->exchange.settle();
  if (!pass) return tl::make_unexpected(pass.error());
  QUERN_CHECK(exchanged);
  return read(*pass);
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
  const auto pass = s.backward(batch, totals);
  double rate = 0;
  if (pass && !s.exchange.failed()) {
    s.enter("optimiser");
    const at::Tensor& weights = s.optimizer.result();
    rate = s.optimizer.step(s.shard_gradients, pass->norm, [&](std::size_t bucket) {
      s.exchange.gather(bucket, weights, s.arena.flat, "weights");
    });
  }
  // Here the host waits, for the first time where there is a GPU.
  const base::status exchanged = s.exchange.settle();
  if (!pass) return tl::make_unexpected(pass.error());
  QUERN_CHECK(exchanged);
  step_metrics m = read(*pass);
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
  state& s = *state_;
  s.exchange.gather_all(s.shard_gradients, s.workers[0].gradients.flat, "gradients");
  return s.exchange.settle();
}

base::status trainer::gather_weights() {
  state& s = *state_;
  s.optimizer.round_master();
  s.exchange.gather_all(s.optimizer.result(), s.arena.flat, "weights");
  return s.exchange.settle();
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
