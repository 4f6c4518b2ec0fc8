// The model's small operations as compositions of ATen operators: right on every device, fused on
// none.
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/div.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include "policy/engine/ops.hpp"

namespace quern::policy::ops::generic {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

at::Tensor rsqrt_mean_square(const at::Tensor& x, double eps) {
  return x.square().mean(-1, true).add_(eps).rsqrt_();
}

/// dx of y = x rstd w.
at::Tensor norm_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                               const at::Tensor& rstd) {
  const at::Tensor g = dy * w, h = x * rstd;
  return rstd * (g - h * (g * h).mean(-1, true));
}

/// x [rows, heads, dim], cos and sin [rows, 1, dim / 2].
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

struct angles {
  at::Tensor cos, sin;
  explicit angles(const head_arguments& how)
      : cos(how.cos.index_select(0, how.positions).unsqueeze(1)),
        sin(how.sin.index_select(0, how.positions).unsqueeze(1)) {}
};

/// [rows, columns] of true where a row of the tile may look.
at::Tensor visible(const at::Tensor& s, const tile_mask& mask) {
  const auto integers = s.options().dtype(at::kLong);
  const at::Tensor limit =
      at::arange(s.size(0), integers).div(mask.group, "floor").add_(mask.first);
  return at::arange(s.size(1), integers).unsqueeze(0) < limit.unsqueeze(1);
}

}  // namespace

void rms_norm(const at::Tensor& x, const at::Tensor& w, double eps, at::Tensor& y,
              at::Tensor& rstd) {
  const at::Tensor scale = rsqrt_mean_square(x, eps);
  y.copy_(x * scale * w);
  if (rstd.defined()) rstd.copy_(scale.squeeze(-1));
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& rstd, at::Tensor& dx, at::Tensor& dw) {
  const at::Tensor scale = rstd.unsqueeze(-1);
  dx.add_(norm_input_gradient(dy, x, w, scale));
  dw.add_((dy * x * scale).sum(0));
}

void split_heads(const head_arguments& how, const at::Tensor& qkv, at::Tensor& q, at::Tensor& k,
                 at::Tensor& v, at::Tensor& rstd) {
  const auto [kv_heads, group, dim] = how.shape;
  const std::int64_t rows = qkv.size(0), query_heads = kv_heads * group;
  const at::Tensor heads = qkv.view({rows, query_heads + 2 * kv_heads, dim});
  at::Tensor queries = heads.narrow(1, 0, query_heads),
             keys = heads.narrow(1, query_heads, kv_heads);
  if (how.q_norm.defined()) {
    const at::Tensor q_scale = rsqrt_mean_square(queries, how.eps),
                     k_scale = rsqrt_mean_square(keys, how.eps);
    queries = queries * q_scale * how.q_norm;
    keys = keys * k_scale * how.k_norm;
    if (rstd.defined()) rstd.copy_(at::cat({q_scale, k_scale}, 1).squeeze(-1));
  }
  const angles angle(how);
  q.copy_(rotate(queries, angle.cos, angle.sin).view({rows, kv_heads, group, dim}).transpose(0, 1));
  k.copy_(rotate(keys, angle.cos, angle.sin).transpose(0, 1));
  v.copy_(heads.narrow(1, query_heads + kv_heads, kv_heads).transpose(0, 1));
}

void split_heads_backward(const head_arguments& how, const at::Tensor& dq, const at::Tensor& dk,
                          const at::Tensor& dv, const at::Tensor& qkv, const at::Tensor& rstd,
                          at::Tensor& dqkv, at::Tensor& dq_norm, at::Tensor& dk_norm) {
  const auto [kv_heads, group, dim] = how.shape;
  const std::int64_t rows = qkv.size(0), query_heads = kv_heads * group;
  const at::Tensor heads = qkv.view({rows, query_heads + 2 * kv_heads, dim});
  const angles angle(how);
  const at::Tensor back = angle.sin.neg();
  at::Tensor queries =
      rotate(dq.transpose(0, 1).reshape({rows, query_heads, dim}), angle.cos, back);
  at::Tensor keys = rotate(dk.transpose(0, 1), angle.cos, back);
  if (how.q_norm.defined()) {
    const at::Tensor q_scale = rstd.narrow(1, 0, query_heads).unsqueeze(-1),
                     k_scale = rstd.narrow(1, query_heads, kv_heads).unsqueeze(-1);
    const at::Tensor x_q = heads.narrow(1, 0, query_heads),
                     x_k = heads.narrow(1, query_heads, kv_heads);
    dq_norm.add_((queries * x_q * q_scale).sum(at::IntArrayRef{0, 1}));
    dk_norm.add_((keys * x_k * k_scale).sum(at::IntArrayRef{0, 1}));
    queries = norm_input_gradient(queries, x_q, how.q_norm, q_scale);
    keys = norm_input_gradient(keys, x_k, how.k_norm, k_scale);
  }
  dqkv.copy_(at::cat({queries, keys, dv.transpose(0, 1)}, 1).view({rows, -1}));
}

void swiglu(const at::Tensor& gate_up, at::Tensor& act) {
  const std::int64_t width = act.size(1);
  act.copy_(at::silu(gate_up.narrow(1, 0, width)) * gate_up.narrow(1, width, width));
}

void swiglu_backward(const at::Tensor& d_act, const at::Tensor& gate_up, at::Tensor& d_gate_up) {
  const std::int64_t width = d_act.size(1);
  const at::Tensor g = gate_up.narrow(1, 0, width), u = gate_up.narrow(1, width, width),
                   s = at::sigmoid(g);
  const at::Tensor d_gate = d_act * u * s * (1 + g * (1 - s)), d_up = d_act * g * s;
  d_gate_up.copy_(at::cat({d_gate, d_up}, 1));
}

void softmax_tile(at::Tensor& s, const tile_mask& mask, at::Tensor& lse) {
  const at::Tensor scores =
      (s * mask.scale).masked_fill_(visible(s, mask).logical_not_(), minus_infinity);
  lse.copy_(at::logsumexp(scores, {1}));
  s.copy_(at::softmax(scores, 1));
}

void softmax_tile_backward(at::Tensor& s, at::Tensor& dp, const tile_mask& mask,
                           const at::Tensor& lse, const at::Tensor& delta) {
  const at::Tensor scores =
      (s * mask.scale).masked_fill_(visible(s, mask).logical_not_(), minus_infinity);
  s.copy_(at::exp(scores - lse.unsqueeze(1)));
  dp.copy_(s * (dp - delta.unsqueeze(1)) * mask.scale);
}

void log_softmax_rows(const at::Tensor& z, const at::Tensor& targets,
                      const at::Tensor& inverse_temperature, std::int64_t valid,
                      at::Tensor& log_prob, at::Tensor& entropy, at::Tensor& lse) {
  const at::Tensor scaled = z.narrow(1, 0, valid) * inverse_temperature.unsqueeze(1);
  const at::Tensor log_probs = at::log_softmax(scaled, 1);
  log_prob.copy_(log_probs.gather(1, targets.unsqueeze(1)).squeeze(1));
  entropy.copy_((log_probs.exp() * log_probs).sum(1).neg_());
  lse.copy_(at::logsumexp(scaled, {1}));
}

void log_softmax_gradient(at::Tensor& z, const at::Tensor& targets,
                          const at::Tensor& inverse_temperature, const at::Tensor& lse,
                          const at::Tensor& gradient, std::int64_t valid, at::Tensor& out) {
  const at::Tensor factor = (gradient * inverse_temperature).unsqueeze(1);
  at::Tensor inside = z.narrow(1, 0, valid);
  inside.copy_(
      (inside * inverse_temperature.unsqueeze(1) - lse.unsqueeze(1)).exp_().mul_(factor.neg()));
  z.narrow(1, valid, z.size(1) - valid).zero_();
  z.scatter_add_(1, targets.unsqueeze(1), factor);
  if (!out.is_same(z)) out.copy_(z);
}

void cached_attention(const head_shape& shape, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const cache_rows& where, layer_cache& cache,
                      at::Tensor& out) {
  const auto [kv_heads, group, dim] = shape;
  const std::int64_t rows = q.size(1), capacity = cache.values.size(2);
  const auto* slot = where.slots.const_data_ptr<std::int64_t>();
  const auto* position = where.positions.const_data_ptr<std::int64_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t block = position[r] / kernels::key_block,
                       lane = position[r] % kernels::key_block;
    cache.keys.select(0, slot[r]).select(1, block).select(2, lane).copy_(k.select(1, r));
    cache.values.select(0, slot[r]).select(1, position[r]).copy_(v.select(1, r));
  }
  const at::Tensor own = where.slots.to(q.device()), other = where.prompt_slots.to(q.device());
  const at::Tensor places = at::arange(capacity, own.options()).view({1, 1, capacity, 1});
  const at::Tensor is_shared = places < where.shared.to(q.device()).view({rows, 1, 1, 1});
  const auto rows_of =
      [&](const at::Tensor& cached) {  // [rows, kv_heads, capacity, dim] -> one batch
        return at::where(is_shared, cached.index_select(0, other), cached.index_select(0, own))
            .reshape({rows * kv_heads, capacity, dim});
      };
  const at::Tensor all_keys =
      rows_of(cache.keys.transpose(3, 4).reshape({-1, kv_heads, capacity, dim}));
  const at::Tensor all_values = rows_of(cache.values);
  const at::Tensor queries = q.transpose(0, 1).reshape({rows * kv_heads, group, dim});
  const at::Tensor hidden =
      places.view({1, capacity}) > where.positions.to(q.device()).unsqueeze(1);
  const at::Tensor scores = at::bmm(queries, all_keys.transpose(1, 2))
                                .view({rows, kv_heads * group, capacity})
                                .mul_(1 / std::sqrt(static_cast<double>(dim)));
  const at::Tensor weights =
      at::softmax(scores.masked_fill_(hidden.unsqueeze(1), minus_infinity), -1);
  out.copy_(at::bmm(weights.view({rows * kv_heads, group, capacity}), all_values).view({rows, -1}));
}

}  // namespace quern::policy::ops::generic
