// Attention over packed segments by ATen's fused variable-length operator, by name: generic
// dispatch would choose another back-end with another mask. bfloat16 on a GPU only.
#pragma once

#include "policy/engine/kernels/table.hpp"
#include "policy/engine/model.hpp"

namespace quern::policy {

/// Whether the operator takes tensors like q: bfloat16 on a GPU, head_dim a multiple of 8 up to
/// 256.
bool flash_fits(const at::Tensor& q);

/// As `attend` (attention.hpp); keys and values of prefixes are gathered beside those of each
/// segment that uses them. Throws what LibTorch throws, std::runtime_error where the operator lays
/// out its log-sums in another way than it is known for.
void flash_forward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                   const at::Tensor& k, const at::Tensor& v, at::Tensor& out, at::Tensor& lse);
/// As `attend_backward`. Gradients of keys that several segments share are added in float32.
void flash_backward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                    const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                    const at::Tensor& lse, const at::Tensor& d_out, at::Tensor& dq, at::Tensor& dk,
                    at::Tensor& dv);

}  // namespace quern::policy
