#include "policy/engine/loss_rows.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "policy/loss/token_loss.hpp"

namespace quern::policy {
namespace {

/// Rows of loss_rows::values_. A log-prob that is not there has 0 in the row after it, and that of
/// the policy itself stands for it.
namespace row {
enum kind : std::int64_t {
  behaviour,
  has_behaviour,
  proximal,
  has_proximal,
  reference,
  has_reference,
  exact,
  has_exact,
  advantage,
  weight,
  current,  ///< 1: sampled by this version, as far as is known
  kinds
};
}  // namespace row

/// Of token_sums::sums, where rows that are left out are counted; the rest of what is summed here
/// stands around it, from 0 on.
constexpr std::int64_t place_of_dropped = 6;

template <class Value>
at::Tensor upload_as(std::span<const Value> values, at::Device device, at::ScalarType type) {
  const at::Tensor host =
      at::empty({static_cast<std::int64_t>(values.size())},
                at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
  std::copy(values.begin(), values.end(), host.template mutable_data_ptr<Value>());
  return host.to(device, type, /*non_blocking=*/true);
}

/// Of each row, before the weight; all [n].
struct row_losses {
  at::Tensor loss, gradient, ratio, clipped, kl;
};

/// token_loss.cpp's formulas. Everything that comes in is finite.
row_losses losses(const loss_parameters& p, const at::Tensor& log_prob, const at::Tensor& behaviour,
                  const at::Tensor& proximal, const at::Tensor& reference, const at::Tensor& a) {
  const double limit = p.log_ratio_clamp;
  const at::Tensor none = at::zeros_like(log_prob);
  const auto exp_clamped = [&](const at::Tensor& x) { return x.clamp(-limit, limit).exp(); };
  if (p.name == preset::sft) return {-a * log_prob, -a, none + 1, none, none};
  if (p.name == preset::reinforce) {
    const at::Tensor ratio = exp_clamped(log_prob - behaviour),
                     g = -ratio.clamp_max(p.importance_cap) * a;
    return {g * log_prob, g, ratio, ratio.gt(p.importance_cap).to(at::kDouble), none};
  }
  const bool by_proximal = p.anchor == ratio_anchor::proximal && uses_group_baseline(p.name);
  const at::Tensor& anchor = by_proximal ? proximal : behaviour;
  const at::Tensor log_ratio = log_prob - anchor, r = exp_clamped(log_ratio),
                   clip_part = r.clamp(1 - p.clip_low, 1 + p.clip_high) * a, free = r * a;
  const at::Tensor by_clip = clip_part.lt(free);
  at::Tensor u = at::where(by_clip, clip_part, free);
  const at::Tensor lowest = a * p.negative_ratio_cap, by_cap = a.lt(0).logical_and(u.lt(lowest));
  u = at::where(by_cap, lowest, u);
  const at::Tensor cut = by_clip.logical_or(by_cap).logical_or(log_ratio.abs().gt(limit)),
                   du = free.masked_fill(cut, 0);
  row_losses out{-u, -du, r, a.ne(0).logical_and(du.eq(0)).to(at::kDouble), none};
  if (by_proximal) {
    const at::Tensor w = exp_clamped(anchor - behaviour).clamp_max(p.importance_cap);
    out.loss = out.loss * w;
    out.gradient = out.gradient * w;
  }
  if (needs_reference(p)) {
    const at::Tensor away = reference - log_prob, d = away.clamp(-limit, limit), e = d.exp();
    out.kl = e - d - 1;
    out.loss = out.loss + p.kl_coefficient * out.kl;
    out.gradient = out.gradient + (p.kl_coefficient * (1 - e)).masked_fill(away.abs().gt(limit), 0);
  }
  return out;
}

}  // namespace

at::Tensor upload(std::span<const double> values, at::Device device) {
  return upload_as(values, device, at::kDouble);
}
at::Tensor upload(std::span<const std::int64_t> values, at::Device device) {
  return upload_as(values, device, at::kLong);
}

row_totals row_totals::zeros(at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kDouble).device(device);
  return {at::zeros({static_cast<std::int64_t>(token_sums::added)}, options),
          at::zeros({static_cast<std::int64_t>(token_sums::compared)}, options)};
}

void row_totals::add(const row_totals& other) {
  sums.add_(other.sums);
  maxima = at::maximum(maxima, other.maxima);
}

double weight_of(const loss_parameters& parameters, const training_sequence& sequence,
                 const batch_totals& totals) {
  const auto trained = std::count_if(sequence.loss_mask.begin(), sequence.loss_mask.end(),
                                     [](std::uint8_t m) { return m != 0; });
  return sequence.weight *
         token_weight(parameters, totals.tokens, totals.sequences, static_cast<double>(trained));
}

loss_rows::loss_rows(const loss_parameters& parameters, const micro_batch& batch,
                     std::span<const training_sequence> sequences, const batch_totals& totals,
                     std::int64_t version, at::Device device)
    : parameters_(parameters) {
  const std::size_t n = batch.predictions.size();
  std::vector<double> all(static_cast<std::size_t>(row::kinds) * n, 0.0);
  const auto at = [&](row::kind kind, std::size_t i) -> double& {
    return all[static_cast<std::size_t>(kind) * n + i];
  };
  std::int32_t last = -1;
  double of_sequence = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const prediction& p = batch.predictions[i];
    const training_sequence& s = sequences[static_cast<std::size_t>(p.sequence)];
    const auto token = static_cast<std::size_t>(p.token);
    const auto put = [&](row::kind kind, row::kind has, const std::vector<float>& values) {
      if (values.empty()) return;
      at(kind, i) = static_cast<double>(values[token]);
      at(has, i) = 1;
    };
    if (p.sequence != last) of_sequence = weight_of(parameters, s, totals);
    last = p.sequence;
    put(row::behaviour, row::has_behaviour, s.behaviour_log_probs);
    put(row::proximal, row::has_proximal, s.proximal_log_probs);
    put(row::reference, row::has_reference, s.reference_log_probs);
    put(row::exact, row::has_exact, s.exact_log_probs);
    at(row::advantage, i) = s.advantage;
    at(row::weight, i) = of_sequence;
    at(row::current, i) = s.versions.empty() || s.versions[token] == version ? 1 : 0;
  }
  values_ = upload(all, device).view({row::kinds, static_cast<std::int64_t>(n)});
}

at::Tensor loss_rows::gradients(std::int64_t first, const at::Tensor& log_prob,
                                const at::Tensor& entropy, row_totals& total) const {
  const loss_parameters& p = parameters_;
  const at::Tensor rows = values_.narrow(1, first, log_prob.numel());
  const at::Tensor own =
      at::where(rows[row::has_exact].ne(0), rows[row::exact], log_prob.to(at::kDouble));
  const auto known = [&](row::kind kind, row::kind has) {
    return at::where(rows[has].ne(0), rows[kind], own);
  };
  const at::Tensor sampled = known(row::behaviour, row::has_behaviour),
                   start = known(row::proximal, row::has_proximal),
                   other = known(row::reference, row::has_reference);
  at::Tensor keep = own.isfinite();
  if (p.name != preset::sft) keep = keep.logical_and(sampled.isfinite());
  if (p.anchor == ratio_anchor::proximal && uses_group_baseline(p.name))
    keep = keep.logical_and(start.isfinite());
  if (needs_reference(p)) keep = keep.logical_and(other.isfinite());
  const at::Tensor left_out = keep.logical_not();
  // A row that is left out computes with zeros: its own numbers would be no numbers in the sums.
  const auto clean = [&](const at::Tensor& x) { return x.masked_fill(left_out, 0); };
  const at::Tensor x = clean(own), b = clean(sampled);
  const row_losses l = losses(p, x, b, clean(start), clean(other), rows[row::advantage]);
  const at::Tensor& by = rows[row::weight];
  const at::Tensor had = rows[row::has_behaviour], fresh = had * rows[row::current], away = x - b,
                   bounded = away.clamp(-p.log_ratio_clamp, p.log_ratio_clamp),
                   mismatch = away.abs().masked_fill(fresh.eq(0), 0);
  const at::Tensor behaviour_kl = (bounded.exp() - bounded - 1).masked_fill(had.eq(0), 0);
  // In the order of token_sums::sums.
  const at::Tensor added = at::stack({by * l.loss, x, entropy.to(at::kDouble), l.ratio, l.clipped,
                                      at::zeros_like(x), l.kl, had, mismatch, fresh, behaviour_kl})
                               .masked_fill_(left_out, 0);
  const auto count = static_cast<std::int64_t>(added.size(0));
  total.sums.narrow(0, 1, count).add_(added.sum(1));
  total.sums[0].add_(static_cast<double>(own.numel()));
  total.sums[place_of_dropped].add_(left_out.sum());
  total.maxima =
      at::maximum(total.maxima, at::stack({l.ratio, mismatch}).masked_fill_(left_out, 0).amax(1));
  // As token_loss.hpp says: the whole step is left out for it.
  return (by * l.gradient)
      .masked_fill_(left_out, std::numeric_limits<double>::quiet_NaN())
      .to(log_prob.scalar_type());
}

}  // namespace quern::policy
