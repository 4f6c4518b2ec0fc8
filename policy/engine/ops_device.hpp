// The model's small operations by the kernels of policy/device, for the library's use (ops.cpp):
// those of a GPU, or the scalar ones for bfloat16 on the host. Same
// meaning as in ops.hpp. Each returns false where there is no kernel for what it is given (float64,
// statistics that are not float32, no library) and the caller composes operators instead; throws
// std::runtime_error where the device refuses.
#pragma once

#include "policy/engine/ops.hpp"

namespace quern::policy::ops::device {

bool rms_norm(const at::Tensor& x, const at::Tensor& w, double eps, at::Tensor& y,
              at::Tensor& rstd);
bool rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,
                       const at::Tensor& rstd, at::Tensor& dx, at::Tensor& dw);
bool split_heads(const head_arguments& how, const at::Tensor& qkv, at::Tensor& q, at::Tensor& k,
                 at::Tensor& v, at::Tensor& rstd);
bool split_heads_backward(const head_arguments& how, const at::Tensor& dq, const at::Tensor& dk,
                          const at::Tensor& dv, const at::Tensor& qkv, const at::Tensor& rstd,
                          at::Tensor& dqkv, at::Tensor& dq_norm, at::Tensor& dk_norm);
bool swiglu(const at::Tensor& gate_up, at::Tensor& act);
bool swiglu_backward(const at::Tensor& d_act, const at::Tensor& gate_up, at::Tensor& d_gate_up);
bool softmax_tile(at::Tensor& s, const tile_mask& mask, at::Tensor& lse);
bool softmax_tile_backward(at::Tensor& s, at::Tensor& dp, const tile_mask& mask,
                           const at::Tensor& lse, const at::Tensor& delta);
bool log_softmax_rows(const at::Tensor& z, const at::Tensor& targets,
                      const at::Tensor& inverse_temperature, std::int64_t valid,
                      at::Tensor& log_prob, at::Tensor& entropy, at::Tensor& lse);
bool log_softmax_gradient(at::Tensor& z, const at::Tensor& targets,
                          const at::Tensor& inverse_temperature, const at::Tensor& lse,
                          const at::Tensor& gradient, std::int64_t valid, at::Tensor& out);

/// Of one AdamW step (kernels.h); `step` counts from 1.
struct adamw_numbers {
  double learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  std::int64_t step = 1;
};

/// On flat float32 ranges. `divisor` of gradients and `skip` are float32 scalars on the device, so
/// that the host waits for neither. The new weights are also written to `rounded`, bfloat16, where
/// it is defined.
bool adamw(const adamw_numbers& how, const at::Tensor& weights, const at::Tensor& gradients,
           const at::Tensor& first, const at::Tensor& second, const at::Tensor& divisor,
           const at::Tensor& skip, const at::Tensor& rounded);

}  // namespace quern::policy::ops::device
