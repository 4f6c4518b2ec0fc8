// Tiled causal attention over packed segments.
#include "policy/engine/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "policy/engine/flash_attention.hpp"
#include "policy/engine/ops.hpp"
#include "policy/engine/products.hpp"

namespace quern::policy {
namespace {

/// Query rows of one tile, all heads of a group together. On the CPU a tile's scores stay in the
/// cache; on a GPU every operator is a launch, and the whole segment is one tile.
std::int64_t tile_rows(const at::Tensor& q) {
  return q.is_cuda() ? std::int64_t{1} << 20 : 128;
}

at::Tensor gather(const at::Tensor& x, const segment& s, at::Tensor& buffer) {
  const std::int64_t prefix = s.prefix_end - s.prefix_begin, own = s.end - s.begin;
  if (prefix == 0) return x.narrow(0, s.begin, own);
  at::Tensor both = take(buffer, {prefix + own, x.size(1)}, x);
  both.narrow(0, 0, prefix).copy_(x.narrow(0, s.prefix_begin, prefix));
  both.narrow(0, prefix, own).copy_(x.narrow(0, s.begin, own));
  return both;
}

/// Calls f(first query row, query rows, visible columns, mask) for each tile of a segment.
template <class F>
void for_tiles(const kernels::head_shape& shape, const segment& s, std::int64_t rows, F&& f) {
  const std::int64_t prefix = s.prefix_end - s.prefix_begin, own = s.end - s.begin;
  const std::int64_t step = std::max<std::int64_t>(1, rows / shape.group);
  ops::tile_mask mask;
  mask.group = shape.group;
  mask.scale = 1 / std::sqrt(static_cast<double>(shape.dim));
  for (std::int64_t begin = 0; begin < own; begin += step) {
    const std::int64_t count = std::min(step, own - begin);
    mask.first = prefix + begin + 1;
    f(s.begin + begin, count, prefix + begin + count, mask);
  }
}

}  // namespace

at::Tensor take(at::Tensor& buffer, at::IntArrayRef shape, const at::TensorOptions& model) {
  std::int64_t count = 1;
  for (std::int64_t size : shape)
    count *= size;
  if (!buffer.defined() || buffer.numel() < count) buffer = at::empty({count + count / 8}, model);
  return buffer.narrow(0, 0, count).view(shape);
}

void attend(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
            const at::Tensor& k, const at::Tensor& v, at::Tensor& out, at::Tensor& lse,
            attention_scratch& scratch) {
  if (flash_fits(q)) return flash_forward(shape, rows, q, k, v, out, lse);
  const auto [kv_heads, group, dim] = shape;
  const at::ScalarType type = wide_type(q.scalar_type());
  at::Tensor heads = take(scratch.heads, q.sizes(), wide_options(q));
  attention_forward(shape, rows.segments, q.to(type), k.to(type), v.to(type), heads, lse, scratch);
  out.view({rows.rows(), kv_heads, group, dim}).copy_(heads.transpose(0, 1));
}

void attend_backward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                     const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                     const at::Tensor& lse, const at::Tensor& d_out, at::Tensor& dq, at::Tensor& dk,
                     at::Tensor& dv, attention_scratch& scratch) {
  if (flash_fits(q)) return flash_backward(shape, rows, q, k, v, out, lse, d_out, dq, dk, dv);
  const auto [kv_heads, group, dim] = shape;
  const std::array<std::int64_t, 4> by_row{rows.rows(), kv_heads, group, dim};
  const at::ScalarType type = wide_type(q.scalar_type());
  at::Tensor delta = take(scratch.delta, lse.sizes(), wide_options(q));
  delta.copy_((d_out.to(type) * out.to(type)).view(by_row).sum(-1).transpose(0, 1));
  at::Tensor d_heads = take(scratch.heads, q.sizes(), wide_options(q));
  d_heads.copy_(d_out.view(by_row).transpose(0, 1));
  if (type == q.scalar_type())
    return attention_backward(shape, rows.segments, q, k, v, lse, d_heads, delta, dq, dk, dv,
                              scratch);
  at::Tensor wide_q = at::empty_like(dq, wide_options(q)),
             wide_k = at::empty_like(dk, wide_options(q)),
             wide_v = at::empty_like(dv, wide_options(q));
  attention_backward(shape, rows.segments, q.to(type), k.to(type), v.to(type), lse, d_heads, delta,
                     wide_q, wide_k, wide_v, scratch);
  dq.copy_(wide_q);
  dk.copy_(wide_k);
  dv.copy_(wide_v);
}

void attention_forward(const kernels::head_shape& shape, std::span<const segment> segments,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       at::Tensor& out, at::Tensor& lse, attention_scratch& scratch) {
  for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
    const at::Tensor q_head = q.select(0, h), k_head = k.select(0, h), v_head = v.select(0, h);
    const at::Tensor out_head = out.select(0, h), lse_head = lse.select(0, h);
    for (const segment& s : segments) {
      const at::Tensor keys = gather(k_head, s, scratch.keys),
                       values = gather(v_head, s, scratch.values);
      for_tiles(shape, s, tile_rows(q),
                [&](std::int64_t row, std::int64_t count, std::int64_t columns,
                    const ops::tile_mask& mask) {
                  const std::int64_t rows = count * shape.group;
                  at::Tensor scores = take(scratch.scores, {rows, columns}, q);
                  at::Tensor tile_lse = lse_head.narrow(0, row, count).view({rows});
                  at::Tensor tile_out = out_head.narrow(0, row, count).view({rows, shape.dim});
                  at::mm_out(scores, q_head.narrow(0, row, count).view({rows, shape.dim}),
                             keys.narrow(0, 0, columns).t());
                  ops::softmax_tile(scores, mask, tile_lse);
                  at::mm_out(tile_out, scores, values.narrow(0, 0, columns));
                });
    }
  }
}

void attention_backward(const kernels::head_shape& shape, std::span<const segment> segments,
                        const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& lse, const at::Tensor& d_out, const at::Tensor& delta,
                        at::Tensor& dq, at::Tensor& dk, at::Tensor& dv,
                        attention_scratch& scratch) {
  dk.zero_();
  dv.zero_();
  for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
    const at::Tensor q_head = q.select(0, h), k_head = k.select(0, h), v_head = v.select(0, h),
                     d_out_head = d_out.select(0, h);
    const at::Tensor lse_head = lse.select(0, h), delta_head = delta.select(0, h);
    const at::Tensor dq_head = dq.select(0, h), dk_head = dk.select(0, h),
                     dv_head = dv.select(0, h);
    for (const segment& s : segments) {
      const std::int64_t prefix = s.prefix_end - s.prefix_begin, own = s.end - s.begin;
      const at::Tensor keys = gather(k_head, s, scratch.keys),
                       values = gather(v_head, s, scratch.values);
      at::Tensor d_keys = take(scratch.d_keys, {prefix + own, shape.dim}, q).zero_();
      at::Tensor d_values = take(scratch.d_values, {prefix + own, shape.dim}, q).zero_();
      for_tiles(
          shape, s, tile_rows(q),
          [&](std::int64_t row, std::int64_t count, std::int64_t columns,
              const ops::tile_mask& mask) {
            const std::int64_t rows = count * shape.group;
            const at::Tensor queries = q_head.narrow(0, row, count).view({rows, shape.dim});
            const at::Tensor d_tile = d_out_head.narrow(0, row, count).view({rows, shape.dim});
            at::Tensor scores = take(scratch.scores, {rows, columns}, q),
                       d_scores = take(scratch.gradients, {rows, columns}, q);
            at::mm_out(scores, queries, keys.narrow(0, 0, columns).t());
            at::mm_out(d_scores, d_tile, values.narrow(0, 0, columns).t());
            ops::softmax_tile_backward(scores, d_scores, mask,
                                       lse_head.narrow(0, row, count).view({rows}),
                                       delta_head.narrow(0, row, count).view({rows}));
            at::Tensor d_values_seen = d_values.narrow(0, 0, columns),
                       d_keys_seen = d_keys.narrow(0, 0, columns);
            at::Tensor d_queries = dq_head.narrow(0, row, count).view({rows, shape.dim});
            at::addmm_out(d_values_seen, d_values_seen, scores.t(), d_tile);
            at::addmm_out(d_keys_seen, d_keys_seen, d_scores.t(), queries);
            at::mm_out(d_queries, d_scores, keys.narrow(0, 0, columns));
          });
      dk_head.narrow(0, s.begin, own).add_(d_keys.narrow(0, prefix, own));
      dv_head.narrow(0, s.begin, own).add_(d_values.narrow(0, prefix, own));
      if (prefix == 0) continue;
      dk_head.narrow(0, s.prefix_begin, prefix).add_(d_keys.narrow(0, 0, prefix));
      dv_head.narrow(0, s.prefix_begin, prefix).add_(d_values.narrow(0, 0, prefix));
    }
  }
}

}  // namespace quern::policy
