// ATen's fused operator on packed segments.
#include "policy/engine/flash_attention.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <tuple>

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

namespace quern::policy {
namespace {

/// [kv_heads, rows, group, dim] as [rows, heads, dim]. Contiguous, since results lie as queries do:
/// for groups of one, `reshape` would give a view.
at::Tensor queries_by_row(const kernels::head_shape& shape, const at::Tensor& q) {
  const std::array<std::int64_t, 3> by_row{q.size(1), shape.kv_heads * shape.group, shape.dim};
  return q.transpose(0, 1).contiguous().view(by_row);
}

/// [kv_heads, rows, dim] as [keys, kv_heads, dim], one segment after another.
at::Tensor keys_by_row(const packed_rows& rows, const at::Tensor& k) {
  const at::Tensor by_row = k.transpose(0, 1);
  return rows.key_rows.defined() ? by_row.index_select(0, rows.key_rows) : by_row.contiguous();
}

/// The way back, where a row may have been a key of several segments.
void put_key_gradients(const packed_rows& rows, const at::Tensor& d_keys, at::Tensor& dk) {
  if (!rows.key_rows.defined()) {
    dk.copy_(d_keys.transpose(0, 1));
    return;
  }
  at::Tensor sums = at::zeros({dk.size(1), dk.size(0), dk.size(2)}, dk.options().dtype(at::kFloat));
  sums.index_add_(0, rows.key_rows, d_keys.to(at::kFloat));
  dk.copy_(sums.transpose(0, 1));
}

std::optional<double> flash_scale(const kernels::head_shape& shape) {
  return 1 / std::sqrt(static_cast<double>(shape.dim));
}

}  // namespace

bool flash_fits(const at::Tensor& q) {
  const std::int64_t dim = q.size(-1);
  return q.is_cuda() && q.scalar_type() == at::kBFloat16 && dim <= 256 && dim % 8 == 0;
}

void flash_forward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                   const at::Tensor& k, const at::Tensor& v, at::Tensor& out, at::Tensor& lse) {
  const auto result = at::_flash_attention_forward(
      queries_by_row(shape, q), keys_by_row(rows, k), keys_by_row(rows, v), rows.begin_rows,
      rows.begin_keys, rows.most_rows, rows.most_keys, 0.0, true, false, flash_scale(shape),
      std::nullopt, std::nullopt, std::optional<at::Tensor>(), std::optional<at::Tensor>());
  const at::Tensor& sums = std::get<1>(result);
  if (sums.numel() != lse.numel())
    throw std::runtime_error(fmt::format("flash attention gave {} log-sums for {} rows of {} heads",
                                         sums.numel(), rows.rows(), shape.kv_heads * shape.group));
  out.copy_(std::get<0>(result).view(out.sizes()));
  lse.view({-1}).copy_(sums.reshape({-1}));
}

void flash_backward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                    const at::Tensor& lse, const at::Tensor& d_out, at::Tensor& dq, at::Tensor& dk,
                    at::Tensor& dv) {
  const std::int64_t n = rows.rows(), heads = shape.kv_heads * shape.group;
  const std::array<std::int64_t, 3> by_row{n, heads, shape.dim};
  // Without dropout nobody reads the state of the random numbers.
  const at::Tensor no_state = at::empty({2}, q.options().dtype(at::kUInt64)),
                   unused = at::empty({}, q.options().dtype(at::kUInt64));
  const auto [d_queries, d_keys, d_values] = at::_flash_attention_backward(
      d_out.view(by_row), queries_by_row(shape, q), keys_by_row(rows, k), keys_by_row(rows, v),
      out.view(by_row), lse.view({heads, n}), rows.begin_rows, rows.begin_keys, rows.most_rows,
      rows.most_keys, 0.0, true, no_state, unused, flash_scale(shape));
  dq.copy_(d_queries.view({n, shape.kv_heads, shape.group, shape.dim}).transpose(0, 1));
  put_key_gradients(rows, d_keys, dk);
  put_key_gradients(rows, d_values, dv);
}

}  // namespace quern::policy
