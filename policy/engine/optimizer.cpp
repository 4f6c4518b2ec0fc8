// AdamW: by our kernel on a GPU, else through ATen's fused operator.
#include "policy/engine/optimizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "policy/engine/ops_device.hpp"
#include "policy/engine/products.hpp"

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

constexpr std::array<std::string_view, 3> schedule_texts{"constant", "linear", "cosine"};

/// Views of all matrices, or of all vectors, of a shard's part of one bucket.
std::vector<at::Tensor> parts(const catalogue& layout, const shard_map& shard, std::size_t bucket,
                              const at::Tensor& flat, bool matrices) {
  const std::int64_t begin = shard.begins[bucket],
                     end = begin + shard.ranges[bucket].end - shard.ranges[bucket].begin;
  std::vector<at::Tensor> result;
  for (const shard_slice& slice : shard.slices)
    if (slice.in_shard >= begin && slice.in_shard < end &&
        (layout.parameters[slice.parameter].shape.size() > 1) == matrices)
      result.push_back(flat.narrow(0, slice.in_shard, slice.count));
  return result;
}

}  // namespace

std::string_view to_string(schedule_kind kind) {
  return schedule_texts[static_cast<std::size_t>(kind)];
}

base::expected<schedule_kind> parse_schedule(std::string_view text) {
  for (std::size_t i = 0; i < schedule_texts.size(); ++i)
    if (schedule_texts[i] == text) return static_cast<schedule_kind>(i);
  return fail(errc::invalid_argument, "unknown schedule '{}'{}; known: constant, linear, cosine",
              text, base::did_you_mean(text, schedule_texts));
}

base::status check(const optimizer_options& o) {
  const auto range = [](std::string_view name, double value, double low,
                        double high) -> base::status {
    if (!(value >= low && value <= high))
      return fail(errc::invalid_argument, "{} is {}, but must lie in [{}, {}]", name, value, low,
                  high);
    return {};
  };
  QUERN_CHECK(range("learning_rate", o.learning_rate, 0, 10));
  QUERN_CHECK(range("floor", o.floor, 0, 1));
  QUERN_CHECK(range("beta1", o.beta1, 0, 1 - 1e-9));
  QUERN_CHECK(range("beta2", o.beta2, 0, 1 - 1e-9));
  QUERN_CHECK(range("epsilon", o.epsilon, 1e-20, 1));
  QUERN_CHECK(range("weight_decay", o.weight_decay, 0, 10));
  QUERN_CHECK(range("max_grad_norm", o.max_grad_norm, 0, 1e9));
  QUERN_CHECK(range("warmup_steps", static_cast<double>(o.warmup_steps), 0, 1e12));
  if (o.schedule != schedule_kind::constant && o.total_steps <= o.warmup_steps)
    return fail(errc::invalid_argument,
                "total_steps is {}, but a {} schedule needs more than its {} warm-up steps",
                o.total_steps, to_string(o.schedule), o.warmup_steps);
  return {};
}

double learning_rate(const optimizer_options& o, std::int64_t step) {
  const auto n = static_cast<double>(step);
  if (step <= o.warmup_steps) return o.learning_rate * n / static_cast<double>(o.warmup_steps);
  if (o.schedule == schedule_kind::constant) return o.learning_rate;
  const auto warm = static_cast<double>(o.warmup_steps);
  const double done = std::min(1.0, (n - warm) / (static_cast<double>(o.total_steps) - warm));
  const double part = o.schedule == schedule_kind::linear
                          ? 1 - done
                          : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return o.learning_rate * (o.floor + (1 - o.floor) * part);
}

base::expected<adamw> adamw::make(const parameter_arena& weights, const optimizer_options& options,
                                  std::int32_t rank) {
  QUERN_CHECK(check(options));
  adamw result;
  result.options = options;
  result.layout = weights.layout;
  QUERN_TRY(result.shard, make_shard_map(weights.layout, rank));
  const std::int64_t count = result.shard.elements;
  const at::TensorOptions wide = wide_options(weights.flat);
  const bool whole = weights.layout.place.ranks == 1;
  result.first = at::zeros({count}, wide);
  result.second = at::zeros({count}, wide);
  if (weights.flat.scalar_type() == at::kBFloat16)
    result.rounded = whole ? weights.flat : at::zeros({count}, weights.flat.options());
  result.master = whole && !result.rounded.defined() ? weights.flat : at::zeros({count}, wide);
  result.load_master(weights);
  result.round_master();
  return result;
}

void adamw::load_master(const parameter_arena& weights) {
  if (master.is_same(weights.flat)) return;
  for (std::size_t i = 0; i < shard.ranges.size(); ++i) {
    const auto [begin, end] = shard.ranges[i];
    master.narrow(0, shard.begins[i], end - begin)
        .copy_(weights.flat.narrow(0, begin, end - begin));
  }
}

void adamw::round_master() {
  if (rounded.defined()) rounded.copy_(master);
}

at::Tensor adamw::squares(const at::Tensor& gradients) {
  // On a GPU another type would be a copy of everything; its sums are trees.
  if (gradients.is_cuda()) return at::linalg_vector_norm(gradients, 2).to(at::kDouble).square();
  return at::linalg_vector_norm(gradients, 2, c10::nullopt, false, at::kDouble).square();
}

double adamw::step(at::Tensor& gradients, const at::Tensor& norm,
                   const std::function<void(std::size_t)>& updated) {
  ++steps;
  // Gradients are divided by it: 1 below the limit.
  const at::Tensor scale =
      options.max_grad_norm > 0 ? (norm / options.max_grad_norm).clamp_min(1) : at::ones_like(norm);
  scales by;
  by.rate = learning_rate(options, steps);
  by.skip = norm.isfinite().logical_not().to(at::kFloat);
  by.count = at::full({}, static_cast<double>(steps), gradients.options().dtype(at::kFloat));
  // The fused operator takes its scale in float32: exact arenas are divided beforehand.
  by.exact = gradients.scalar_type() == at::kDouble;
  if (by.exact) {
    gradients.div_(scale);
  } else {
    by.divide = scale.to(at::kFloat);
  }
  for (std::size_t bucket = 0; bucket < shard.ranges.size(); ++bucket) {
    for (const bool matrices : {true, false})
      update(bucket, matrices, gradients, by);
    if (updated) updated(bucket);
  }
  return by.rate;
}

void adamw::update(std::size_t bucket, bool matrices, const at::Tensor& gradients,
                   const scales& by) {
  const auto of = [&](const at::Tensor& flat) {
    return parts(layout, shard, bucket, flat, matrices);
  };
  const std::vector<at::Tensor> w = of(master), g = of(gradients), m = of(first), v = of(second),
                                counts(w.size(), by.count);
  if (w.empty()) return;
  const std::vector<at::Tensor> halves =
      rounded.defined() ? of(rounded) : std::vector<at::Tensor>(w.size());
  const double decay = matrices ? options.weight_decay : 0.0;
  const ops::device::adamw_numbers numbers{by.rate,         options.beta1, options.beta2,
                                           options.epsilon, decay,         steps};
  bool by_kernel = !by.exact;  // all of them or none: they are alike
  for (std::size_t i = 0; by_kernel && i < w.size(); ++i)
    by_kernel = ops::device::adamw(numbers, w[i], g[i], m[i], v[i], *by.divide, by.skip, halves[i]);
  if (by_kernel) return;
  at::_fused_adamw_(w, g, m, v, {}, counts, by.rate, options.beta1, options.beta2, decay,
                    options.epsilon, false, false, by.divide, by.skip);
  for (std::size_t i = 0; rounded.defined() && i < w.size(); ++i)
    halves[i].copy_(w[i]);
}

}  // namespace quern::policy
