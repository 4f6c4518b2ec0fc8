// The optimiser step.
#include "policy/engine/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <thread>

#include <ATen/Parallel.h>

#include "policy/engine/attention.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/engine/log_probs.hpp"
#include "policy/loss/token_loss.hpp"

namespace quern::policy {

/// Sums over trained tokens; those of the workers are added up in order.
struct token_sums {
  double tokens = 0, loss = 0, log_prob = 0, entropy = 0, ratio = 0, ratio_max = 0, clipped = 0,
         dropped = 0, kl = 0;
  double behaviour_tokens = 0, mismatch = 0, mismatch_max = 0, mismatch_tokens = 0,
         behaviour_kl = 0, rows = 0;

  void add(const token_sums& o) {
    tokens += o.tokens, loss += o.loss, log_prob += o.log_prob, entropy += o.entropy,
        ratio += o.ratio;
    clipped += o.clipped, dropped += o.dropped, kl += o.kl, behaviour_tokens += o.behaviour_tokens;
    mismatch += o.mismatch, mismatch_tokens += o.mismatch_tokens, behaviour_kl += o.behaviour_kl,
        rows += o.rows;
    ratio_max = std::max(ratio_max, o.ratio_max),
    mismatch_max = std::max(mismatch_max, o.mismatch_max);
  }
};

namespace {

using base::errc;
using base::fail;

double trained_tokens(const training_sequence& s) {
  return static_cast<double>(
      std::count_if(s.loss_mask.begin(), s.loss_mask.end(), [](std::uint8_t m) { return m != 0; }));
}

/// Loss and gradient of one prediction, and what the metrics want to know of it.
double visit_token(const loss_parameters& p, const training_sequence& s, std::size_t t,
                   double weight, double log_prob, double entropy, std::int64_t version,
                   token_sums& total) {
  const auto at = [&](const std::vector<float>& values, double otherwise) {
    return values.empty() ? otherwise : static_cast<double>(values[t]);
  };
  token_input in;
  in.log_prob = log_prob;
  in.behaviour_log_prob = at(s.behaviour_log_probs, log_prob);
  in.proximal_log_prob = at(s.proximal_log_probs, log_prob);
  in.reference_log_prob = at(s.reference_log_probs, log_prob);
  in.advantage = s.advantage;
  const token_loss l = evaluate_token(p, in);
  total.tokens += 1;
  total.dropped += l.dropped ? 1 : 0;
  if (l.dropped) return 0;
  total.loss += weight * l.loss;
  total.log_prob += log_prob;
  total.entropy += entropy;
  total.ratio += l.ratio;
  total.ratio_max = std::max(total.ratio_max, l.ratio);
  total.clipped += l.clipped ? 1 : 0;
  total.kl += l.kl;
  if (!s.behaviour_log_probs.empty()) {
    const double d = log_prob - in.behaviour_log_prob,
                 bounded = std::clamp(d, -p.log_ratio_clamp, p.log_ratio_clamp);
    total.behaviour_tokens += 1;
    total.behaviour_kl += std::exp(bounded) - bounded - 1;
    if (s.versions.empty() || s.versions[t] == version) {
      total.mismatch += std::abs(d);
      total.mismatch_max = std::max(total.mismatch_max, std::abs(d));
      total.mismatch_tokens += 1;
    }
  }
  return weight * l.gradient;
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

struct trainer::state {
  parameter_arena arena;
  trainer_options options;
  adamw optimizer;
  std::vector<worker> workers;
  std::int64_t version = 0;

  base::status check_batch(std::span<const training_sequence> batch,
                           const batch_totals& totals) const;
  void run_micro_batch(worker& w, const micro_batch& batch,
                       std::span<const training_sequence> sequences, const batch_totals& totals);
};

base::json to_json(const step_metrics& m) {
  return {{"version", m.version},
          {"loss", m.loss},
          {"grad_norm", m.grad_norm},
          {"learning_rate", m.learning_rate},
          {"skipped", m.skipped},
          {"tokens", m.tokens},
          {"sequences", m.sequences},
          {"idle_sequences", m.idle_sequences},
          {"mean_log_prob", m.mean_log_prob},
          {"entropy", m.entropy},
          {"ratio", m.ratio},
          {"ratio_max", m.ratio_max},
          {"clip_fraction", m.clip_fraction},
          {"dropped_fraction", m.dropped_fraction},
          {"kl", m.kl},
          {"mismatch_mean", m.mismatch_mean},
          {"mismatch_max", m.mismatch_max},
          {"mismatch_tokens", m.mismatch_tokens},
          {"behaviour_kl", m.behaviour_kl},
          {"forward_rows", m.forward_rows}};
}

base::status trainer::state::check_batch(std::span<const training_sequence> batch,
                                         const batch_totals& totals) const {
  const batch_totals here = count(batch);
  if (here.tokens == 0)
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
                                     const batch_totals& totals) {
  const at::Tensor hidden = w.model.forward(arena.weights, batch.rows, true);
  at::Tensor d_hidden = take(w.d_hidden, hidden.sizes(), hidden).zero_();
  const auto visit = [&](const head_chunk& chunk) {
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
  w.model.backward(arena.weights, batch.rows, d_hidden, w.gradients.weights);
  w.total.rows += static_cast<double>(batch.rows.rows());
}

base::expected<trainer> trainer::make(parameter_arena arena, const trainer_options& options,
                                      const parallel_context& context) {
  QUERN_CHECK(check(options.loss));
  if (options.loss_chunk < 1 || options.workers < 1 || options.workers > 256)
    return fail(errc::invalid_argument,
                "loss_chunk {} and workers {}: both at least 1, workers at most 256",
                options.loss_chunk, options.workers);
  if (options.valid_tokens < 0 || options.valid_tokens > arena.config.vocab_size)
    return fail(errc::invalid_argument, "valid_tokens is {}, but the vocabulary has {} rows",
                options.valid_tokens, arena.config.vocab_size);
  auto s = std::make_unique<state>();
  QUERN_TRY(s->optimizer, adamw::make(arena, options.optimizer));
  for (std::int32_t i = 0; i < options.workers; ++i) {
    QUERN_TRY(decoder model, decoder::make(arena, context));
    s->workers.push_back({std::move(model),
                          output_head(options.loss_chunk, options.valid_tokens),
                          arena.like(),
                          {},
                          {}});
  }
  s->arena = std::move(arena);
  s->options = options;
  return trainer(std::move(s));
}

base::expected<step_metrics> trainer::gradients(std::span<const training_sequence> batch,
                                                const batch_totals& totals) {
  state& s = *state_;
  QUERN_CHECK(s.check_batch(batch, totals));
  std::vector<training_sequence> moving;
  std::size_t idle = 0;
  if (s.options.skip_idle && !needs_reference(s.options.loss)) {
    const auto is_idle = [](const training_sequence& q) { return q.advantage * q.weight == 0; };
    idle = static_cast<std::size_t>(std::count_if(batch.begin(), batch.end(), is_idle));
    if (idle > 0) {
      std::remove_copy_if(batch.begin(), batch.end(), std::back_inserter(moving), is_idle);
      batch = moving;
    }
  }
  QUERN_TRY(const auto batches, pack(s.arena.config, batch, s.options.pack, s.arena.flat.device()));
  const std::size_t count = s.workers.size();
  const auto work = [&](std::size_t index) {
    worker& w = s.workers[index];
    w.gradients.flat.zero_();
    w.total = {};
    for (std::size_t i = index; i < batches.size(); i += count)
      s.run_micro_batch(w, batches[i], batch, totals);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(count, batches.size()); ++i)
      threads.emplace_back([&work, i] {
        at::init_num_threads();
        work(i);
      });
    work(0);
  }
  token_sums total = s.workers[0].total;
  for (std::size_t i = 1; i < std::min(count, batches.size()); ++i) {
    s.workers[0].gradients.flat.add_(s.workers[i].gradients.flat);
    total.add(s.workers[i].total);
  }
  step_metrics m;
  const double used = std::max(1.0, total.tokens - total.dropped);
  m.version = s.version;
  m.loss = total.loss;
  m.grad_norm = adamw::norm(s.workers[0].gradients);
  m.tokens = total.tokens;
  m.sequences = policy::count(batch).sequences;
  m.idle_sequences = static_cast<double>(idle);
  m.mean_log_prob = total.log_prob / used;
  m.entropy = total.entropy / used;
  m.ratio = total.ratio / used;
  m.ratio_max = total.ratio_max;
  m.clip_fraction = total.clipped / used;
  m.dropped_fraction = total.dropped / std::max(1.0, total.tokens);
  m.kl = total.kl / used;
  m.mismatch_mean = total.mismatch / std::max(1.0, total.mismatch_tokens);
  m.mismatch_max = total.mismatch_max;
  m.mismatch_tokens = total.mismatch_tokens;
  m.behaviour_kl = total.behaviour_kl / std::max(1.0, total.behaviour_tokens);
  m.forward_rows = total.rows;
  return m;
}

base::expected<step_metrics> trainer::step(std::span<const training_sequence> batch) {
  return step(batch, count(batch));
}

base::expected<step_metrics> trainer::step(std::span<const training_sequence> batch,
                                           const batch_totals& totals) {
  state& s = *state_;
  QUERN_TRY(step_metrics m, gradients(batch, totals));
  if (!std::isfinite(m.grad_norm)) {
    m.skipped = true;
    return m;
  }
  m.learning_rate = s.optimizer.step(s.arena, s.workers[0].gradients, m.grad_norm);
  m.version = ++s.version;
  return m;
}

base::expected<std::vector<std::vector<float>>> trainer::log_probs(
    std::span<const training_sequence> batch) {
  state& s = *state_;
  return token_log_probs(s.workers[0].model, s.arena.weights, batch, s.options.pack,
                         s.options.valid_tokens);
}

const parameter_arena& trainer::weights() const {
  return state_->arena;
}
const parameter_arena& trainer::gradient_arena() const {
  return state_->workers[0].gradients;
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
