// Hands tensors on the CPU to the host kernels, those on a GPU to its kernels, and to the ATen
// compositions what these do not know.
#include "policy/engine/ops.hpp"

#include "policy/engine/ops_device.hpp"

namespace quern::policy::ops {
namespace {

/// Calls f(kernel table) for the element type of `x`.
template <class F>
void with_kernels(const at::Tensor& x, F&& f) {
  if (x.scalar_type() == at::kDouble)
    f(kernels::host_kernels<double>(), double{});
  else
    f(kernels::host_kernels<float>(), float{});
}

/// What the host kernels are for; bfloat16 on the host is computed by the scalar table.
bool on_host(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() != at::kBFloat16;
}

template <class T>
const T* in(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<T>() : nullptr;
}
template <class T>
T* out(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}

}  // namespace

void rms_norm(const at::Tensor& x, const at::Tensor& w, double eps, at::Tensor& y,
              at::Tensor& rstd) {
  if (!on_host(x)) {
    if (!device::rms_norm(x, w, eps, y, rstd)) generic::rms_norm(x, w, eps, y, rstd);
    return;
  }
  with_kernels(x, [&]<class T>(const auto& k, T) {
    k.rms_norm(in<T>(x), in<T>(w), static_cast<T>(eps), x.size(0), x.size(1), out<T>(y),
               out<T>(rstd));
  });
}

void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& rstd, at::Tensor& dx, at::Tensor& dw) {
  if (!on_host(x)) {
    if (!device::rms_norm_backward(dy, x, w, rstd, dx, dw))
      generic::rms_norm_backward(dy, x, w, rstd, dx, dw);
    return;
  }
  with_kernels(x, [&]<class T>(const auto& k, T) {
    k.rms_norm_backward(in<T>(dy), in<T>(x), in<T>(w), in<T>(rstd), x.size(0), x.size(1),
                        out<T>(dx), out<T>(dw));
  });
}

void split_heads(const head_arguments& how, const at::Tensor& qkv, at::Tensor& q, at::Tensor& k,
                 at::Tensor& v, at::Tensor& rstd) {
  if (!on_host(qkv)) {
    if (!device::split_heads(how, qkv, q, k, v, rstd))
      generic::split_heads(how, qkv, q, k, v, rstd);
    return;
  }
  with_kernels(qkv, [&]<class T>(const auto& table, T) {
    table.split_heads(how.shape, in<T>(qkv), in<T>(how.q_norm), in<T>(how.k_norm),
                      static_cast<T>(how.eps), in<T>(how.cos), in<T>(how.sin),
                      in<std::int64_t>(how.positions), qkv.size(0), out<T>(q), out<T>(k), out<T>(v),
                      out<T>(rstd));
  });
}

void split_heads_backward(const head_arguments& how, const at::Tensor& dq, const at::Tensor& dk,
                          const at::Tensor& dv, const at::Tensor& qkv, const at::Tensor& rstd,
                          at::Tensor& dqkv, at::Tensor& dq_norm, at::Tensor& dk_norm) {
  if (!on_host(qkv)) {
    if (!device::split_heads_backward(how, dq, dk, dv, qkv, rstd, dqkv, dq_norm, dk_norm))
      generic::split_heads_backward(how, dq, dk, dv, qkv, rstd, dqkv, dq_norm, dk_norm);
    return;
  }
  with_kernels(qkv, [&]<class T>(const auto& table, T) {
    table.split_heads_backward(how.shape, in<T>(dq), in<T>(dk), in<T>(dv), in<T>(qkv),
                               in<T>(how.q_norm), in<T>(how.k_norm), in<T>(rstd), in<T>(how.cos),
                               in<T>(how.sin), in<std::int64_t>(how.positions), qkv.size(0),
                               out<T>(dqkv), out<T>(dq_norm), out<T>(dk_norm));
  });
}

void swiglu(const at::Tensor& gate_up, at::Tensor& act) {
  if (!on_host(gate_up)) {
    if (!device::swiglu(gate_up, act)) generic::swiglu(gate_up, act);
    return;
  }
  with_kernels(gate_up, [&]<class T>(const auto& k, T) {
    k.swiglu(in<T>(gate_up), act.size(0), act.size(1), out<T>(act));
  });
}

void swiglu_backward(const at::Tensor& d_act, const at::Tensor& gate_up, at::Tensor& d_gate_up) {
  if (!on_host(gate_up)) {
    if (!device::swiglu_backward(d_act, gate_up, d_gate_up))
      generic::swiglu_backward(d_act, gate_up, d_gate_up);
    return;
  }
  with_kernels(gate_up, [&]<class T>(const auto& k, T) {
    k.swiglu_backward(in<T>(d_act), in<T>(gate_up), d_act.size(0), d_act.size(1),
                      out<T>(d_gate_up));
  });
}

void softmax_tile(at::Tensor& s, const tile_mask& mask, at::Tensor& lse) {
  if (!on_host(s)) {
    if (!device::softmax_tile(s, mask, lse)) generic::softmax_tile(s, mask, lse);
    return;
  }
  with_kernels(s, [&]<class T>(const auto& k, T) {
    k.softmax_tile(out<T>(s), s.size(0), s.size(1), mask.group, mask.first,
                   static_cast<T>(mask.scale), out<T>(lse));
  });
}

void softmax_tile_backward(at::Tensor& s, at::Tensor& dp, const tile_mask& mask,
                           const at::Tensor& lse, const at::Tensor& delta) {
  if (!on_host(s)) {
    if (!device::softmax_tile_backward(s, dp, mask, lse, delta))
      generic::softmax_tile_backward(s, dp, mask, lse, delta);
    return;
  }
  with_kernels(s, [&]<class T>(const auto& k, T) {
    k.softmax_tile_backward(out<T>(s), out<T>(dp), s.size(0), s.size(1), mask.group, mask.first,
                            static_cast<T>(mask.scale), in<T>(lse), in<T>(delta));
  });
}

void log_softmax_rows(const at::Tensor& z, const at::Tensor& targets,
                      const at::Tensor& inverse_temperature, std::int64_t valid,
                      at::Tensor& log_prob, at::Tensor& entropy, at::Tensor& lse) {
  if (!on_host(z)) {
    if (!device::log_softmax_rows(z, targets, inverse_temperature, valid, log_prob, entropy, lse))
      generic::log_softmax_rows(z, targets, inverse_temperature, valid, log_prob, entropy, lse);
    return;
  }
  with_kernels(z, [&]<class T>(const auto& k, T) {
    k.log_softmax_rows(in<T>(z), in<std::int64_t>(targets), in<T>(inverse_temperature), z.size(0),
                       z.size(1), valid, out<T>(log_prob), out<T>(entropy), out<T>(lse));
  });
}

void log_softmax_gradient(at::Tensor& z, const at::Tensor& targets,
                          const at::Tensor& inverse_temperature, const at::Tensor& lse,
                          const at::Tensor& gradient, std::int64_t valid, at::Tensor& out_rows) {
  if (!on_host(z)) {
    if (!device::log_softmax_gradient(z, targets, inverse_temperature, lse, gradient, valid,
                                      out_rows))
      generic::log_softmax_gradient(z, targets, inverse_temperature, lse, gradient, valid,
                                    out_rows);
    return;
  }
  with_kernels(z, [&]<class T>(const auto& k, T) {
    k.log_softmax_gradient(out<T>(z), in<std::int64_t>(targets), in<T>(inverse_temperature),
                           in<T>(lse), in<T>(gradient), z.size(0), z.size(1), valid);
  });
  if (!out_rows.is_same(z)) out_rows.copy_(z);
}

void cached_attention(const head_shape& shape, const at::Tensor& q, const at::Tensor& k,
                      const at::Tensor& v, const cache_rows& where, layer_cache& cache,
                      at::Tensor& out_rows) {
  if (!on_host(q)) return generic::cached_attention(shape, q, k, v, where, cache, out_rows);
  const std::int64_t rows = q.size(1), capacity = cache.values.size(2),
                     head_stride = capacity * shape.dim;
  const std::int64_t slot_stride = shape.kv_heads * head_stride,
                     out_stride = shape.kv_heads * shape.group * shape.dim;
  const auto* slot = in<std::int64_t>(where.slots);
  const auto* position = in<std::int64_t>(where.positions);
  const auto* prompt_slot = in<std::int64_t>(where.prompt_slots);
  const auto* shared = in<std::int64_t>(where.shared);
  with_kernels(q, [&]<class T>(const auto& table, T) {
    T* keys = out<T>(cache.keys);
    T* values = out<T>(cache.values);
    for (std::int64_t r = 0; r < rows; ++r)
      table.store_row(shape, in<T>(k), in<T>(v), rows, r, position[r], capacity,
                      keys + slot[r] * slot_stride, values + slot[r] * slot_stride);
    for (std::int64_t h = 0; h < shape.kv_heads;
         ++h)  // outside: rows of one prompt find its head in the processor's cache
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t own = slot[r] * slot_stride + h * head_stride,
                           other = prompt_slot[r] * slot_stride + h * head_stride;
        table.cached_attention(shape, h, in<T>(q), rows, r, shared[r], position[r] + 1, capacity,
                               keys + other, values + other, keys + own, values + own,
                               out<T>(cache.scratch), out<T>(out_rows) + r * out_stride);
      }
  });
}

}  // namespace quern::policy::ops
