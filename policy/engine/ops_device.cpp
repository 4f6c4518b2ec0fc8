// Tensors to kernels.
#include "policy/engine/ops_device.hpp"

#include <cmath>
#include <initializer_list>
#include <stdexcept>

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include "policy/device/library.hpp"
#include "policy/engine/device_queue.hpp"

namespace quern::policy::ops::device {
namespace {

/// The kernels for `x`, if they know its element, and every other tensor that is there is on its
/// device and contiguous; `statistics` have to be float32.
const quern_policy_kernels* kernels_for(const at::Tensor& x,
                                        std::initializer_list<at::Tensor> others,
                                        std::initializer_list<at::Tensor> statistics) {
  const bool half = x.scalar_type() == at::kBFloat16;
  if (x.is_cuda() ? !half && x.scalar_type() != at::kFloat : !x.is_cpu() || !half) return nullptr;
  const auto fits = [&](const at::Tensor& t, at::ScalarType type) {
    return !t.defined() ||
           (t.device() == x.device() && t.is_contiguous() && t.scalar_type() == type);
  };
  if (!x.is_contiguous()) return nullptr;
  for (const at::Tensor& t : others)
    if (!fits(t, x.scalar_type())) return nullptr;
  for (const at::Tensor& t : statistics)
    if (!fits(t, at::kFloat)) return nullptr;
  return x.is_cpu() ? &host_policy_kernels() : cuda_policy_kernels_or_null();
}

std::int32_t element_of(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? quern_bf16 : quern_f32;
}
template <class T = void>
T* raw(const at::Tensor& x) {
  return x.defined() ? static_cast<T*>(x.mutable_data_ptr()) : nullptr;
}
std::int32_t size_of_dimension(const at::Tensor& x, std::int64_t d) {
  return static_cast<std::int32_t>(x.size(d));
}

bool done(const quern_policy_kernels& k, std::int32_t code, const char* what) {
  if (code != 0) throw std::runtime_error(fmt::format("kernel {}: {}", what, k.problem(code)));
  return true;
}

quern_heads shape_of(const head_shape& s) {
  return {static_cast<std::int32_t>(s.kv_heads), static_cast<std::int32_t>(s.group),
          static_cast<std::int32_t>(s.dim)};
}
quern_head_steps steps_of(const head_arguments& how) {
  return {raw(how.q_norm), raw(how.k_norm), static_cast<float>(how.eps), raw<float>(how.cos),
          raw<float>(how.sin)};
}
at::Tensor room_for(std::int64_t width, const at::Tensor& like) {
  return at::empty({quern_partials * width}, like.options().dtype(at::kFloat));
}

constexpr std::int64_t widest_row = 12000, widest_head = 256,
                       widest_vocabulary = 128LL * quern_chunk;

}  // namespace

bool rms_norm(const at::Tensor& x, const at::Tensor& w, double eps, at::Tensor& y,
              at::Tensor& rstd) {
  const auto* k = kernels_for(x, {w, y}, {rstd});
  if (k == nullptr || x.size(1) > widest_row) return false;
  return done(*k,
              k->add_rms_norm(element_of(x), size_of_dimension(x, 0), size_of_dimension(x, 1),
                              static_cast<float>(eps), nullptr, raw(x), raw(w), raw(y),
                              raw<float>(rstd), current_stream(x.device())),
              "add_rms_norm");
}

bool rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& rstd, at::Tensor& dx, at::Tensor& dw) {
  const auto* k = kernels_for(x, {dy, w, dx}, {rstd, dw});
  if (k == nullptr || x.size(1) > widest_row) return false;
  const at::Tensor room = room_for(x.size(1), x);
  return done(*k,
              k->rms_norm_backward(element_of(x), size_of_dimension(x, 0), size_of_dimension(x, 1),
                                   raw(dy), raw(x), raw(w), raw<float>(rstd), raw(dx),
                                   raw<float>(dw), raw<float>(room), current_stream(x.device())),
              "rms_norm_backward");
}

bool split_heads(const head_arguments& how, const at::Tensor& qkv, at::Tensor& q, at::Tensor& k,
                 at::Tensor& v, at::Tensor& rstd) {
  const auto* table = kernels_for(qkv, {how.q_norm, how.k_norm, q, k, v}, {how.cos, how.sin, rstd});
  if (table == nullptr || how.shape.dim > widest_head) return false;
  return done(*table,
              table->split_heads(element_of(qkv), shape_of(how.shape), steps_of(how),
                                 size_of_dimension(qkv, 0), raw(qkv),
                                 how.positions.const_data_ptr<std::int64_t>(), raw(q), raw(k),
                                 raw(v), raw<float>(rstd), current_stream(qkv.device())),
              "split_heads");
}

bool split_heads_backward(const head_arguments& how, const at::Tensor& dq, const at::Tensor& dk,
                          const at::Tensor& dv, const at::Tensor& qkv, const at::Tensor& rstd,
                          at::Tensor& dqkv, at::Tensor& dq_norm, at::Tensor& dk_norm) {
  const auto* k = kernels_for(qkv, {how.q_norm, how.k_norm, dq, dk, dv, dqkv},
                              {how.cos, how.sin, rstd, dq_norm, dk_norm});
  if (k == nullptr || how.shape.dim > widest_head) return false;
  const at::Tensor room = room_for(2 * how.shape.dim, qkv);
  return done(*k,
              k->split_heads_backward(
                  element_of(qkv), shape_of(how.shape), steps_of(how), size_of_dimension(qkv, 0),
                  raw(dq), raw(dk), raw(dv), raw(qkv), raw<float>(rstd),
                  how.positions.const_data_ptr<std::int64_t>(), raw(dqkv), raw<float>(dq_norm),
                  raw<float>(dk_norm), raw<float>(room), current_stream(qkv.device())),
              "split_heads_backward");
}

bool swiglu(const at::Tensor& gate_up, at::Tensor& act) {
  const auto* k = kernels_for(gate_up, {act}, {});
  if (k == nullptr) return false;
  return done(*k,
              k->swiglu(element_of(act), act.size(0), act.size(1), raw(gate_up), raw(act),
                        current_stream(act.device())),
              "swiglu");
}

bool swiglu_backward(const at::Tensor& d_act, const at::Tensor& gate_up, at::Tensor& d_gate_up) {
  const auto* k = kernels_for(gate_up, {d_act, d_gate_up}, {});
  if (k == nullptr) return false;
  return done(*k,
              k->swiglu_backward(element_of(d_act), d_act.size(0), d_act.size(1), raw(d_act),
                                 raw(gate_up), raw(d_gate_up), current_stream(d_act.device())),
              "swiglu_backward");
}

bool softmax_tile(at::Tensor& s, const tile_mask& mask, at::Tensor& lse) {
  const auto* k = kernels_for(s, {}, {s, lse});
  if (k == nullptr) return false;
  return done(
      *k,
      k->softmax_tile(s.size(0), s.size(1), mask.group, mask.first, static_cast<float>(mask.scale),
                      raw<float>(s), raw<float>(lse), current_stream(s.device())),
      "softmax_tile");
}

bool softmax_tile_backward(at::Tensor& s, at::Tensor& dp, const tile_mask& mask,
                           const at::Tensor& lse, const at::Tensor& delta) {
  const auto* k = kernels_for(s, {}, {s, dp, lse, delta});
  if (k == nullptr) return false;
  return done(
      *k,
      k->softmax_tile_backward(s.size(0), s.size(1), mask.group, mask.first,
                               static_cast<float>(mask.scale), raw<float>(s), raw<float>(dp),
                               raw<float>(lse), raw<float>(delta), current_stream(s.device())),
      "softmax_tile_backward");
}

bool log_softmax_rows(const at::Tensor& z, const at::Tensor& targets,
                      const at::Tensor& inverse_temperature, std::int64_t valid,
                      at::Tensor& log_prob, at::Tensor& entropy, at::Tensor& lse) {
  const auto* k = kernels_for(z, {}, {z, inverse_temperature, log_prob, entropy, lse});
  if (k == nullptr || valid > widest_vocabulary) return false;
  return done(*k,
              k->log_softmax_rows(z.size(0), z.size(1), valid, raw<float>(z),
                                  targets.const_data_ptr<std::int64_t>(),
                                  raw<float>(inverse_temperature), raw<float>(log_prob),
                                  raw<float>(entropy), raw<float>(lse), current_stream(z.device())),
              "log_softmax_rows");
}

bool log_softmax_gradient(at::Tensor& z, const at::Tensor& targets,
                          const at::Tensor& inverse_temperature, const at::Tensor& lse,
                          const at::Tensor& gradient, std::int64_t valid, at::Tensor& out) {
  const auto* k = kernels_for(z, {}, {z, inverse_temperature, lse, gradient});
  if (k == nullptr || kernels_for(out, {}, {}) == nullptr || out.device() != z.device())
    return false;
  return done(*k,
              k->log_softmax_gradient(element_of(out), z.size(0), z.size(1), valid, raw<float>(z),
                                      targets.const_data_ptr<std::int64_t>(),
                                      raw<float>(inverse_temperature), raw<float>(lse),
                                      raw<float>(gradient), raw(out), current_stream(z.device())),
              "log_softmax_gradient");
}

bool adamw(const adamw_numbers& how, const at::Tensor& weights, const at::Tensor& gradients,
           const at::Tensor& first, const at::Tensor& second, const at::Tensor& divisor,
           const at::Tensor& skip, const at::Tensor& rounded) {
  const auto* k = kernels_for(weights, {}, {weights, gradients, first, second, divisor, skip});
  if (k == nullptr) return false;
  if (rounded.defined() && (rounded.scalar_type() != at::kBFloat16 || !rounded.is_contiguous() ||
                            rounded.device() != weights.device()))
    return false;
  const auto single = [](double x) { return static_cast<float>(x); };
  const auto correction = [&](double beta) {
    return single(1 - std::pow(beta, static_cast<double>(how.step)));
  };
  const quern_adamw numbers{
      single(how.learning_rate), single(how.beta1),        single(how.beta2),
      single(how.epsilon),       single(how.weight_decay), correction(how.beta1),
      correction(how.beta2),     raw<float>(divisor),      raw<float>(skip)};
  return done(*k,
              k->adamw(numbers, weights.numel(), raw<float>(weights), quern_f32, raw(gradients),
                       raw<float>(first), raw<float>(second), quern_bf16, raw(rounded),
                       current_stream(weights.device())),
              "adamw");
}

}  // namespace quern::policy::ops::device
