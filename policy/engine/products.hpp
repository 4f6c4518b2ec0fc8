// Matrix products where weights and activations may be bfloat16: what is summed over many products
// (gradients) and what probabilities are made of (logits) is float32, never rounded in between.
#pragma once

#include <ATen/core/Tensor.h>

namespace quern::policy {

/// Of gradients, moments, logits and statistics beside elements of `type`: float64 for float64,
/// else float32.
at::ScalarType wide_type(at::ScalarType type);
at::TensorOptions wide_options(const at::Tensor& x);

/// sum += a b; `sum` of the wide type of a and b.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);
/// out = a b; `out` of the wide type.
void wide_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
/// out = residual + x w^T. In bfloat16 the product is rounded before it is added, as the generator
/// does it (policy/engine/paged_decoder.cpp).
void add_projection(at::Tensor& out, const at::Tensor& residual, const at::Tensor& x,
                    const at::Tensor& w);

}  // namespace quern::policy
