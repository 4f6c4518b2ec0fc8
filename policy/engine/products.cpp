// Products with wide sums.
#include "policy/engine/products.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace quern::policy {

at::ScalarType wide_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

at::TensorOptions wide_options(const at::Tensor& x) {
  return x.options().dtype(wide_type(x.scalar_type()));
}

void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type())
    at::addmm_out(sum, sum, a, b);
  else if (a.is_cuda())
    at::addmm_out(sum, sum, a, b, sum.scalar_type());
  else
    at::addmm_out(sum, sum, a.to(sum.scalar_type()), b.to(sum.scalar_type()));
}

void wide_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == out.scalar_type())
    at::mm_out(out, a, b);
  else if (a.is_cuda())
    at::mm_out(out, a, b, out.scalar_type());
  else
    at::mm_out(out, a.to(out.scalar_type()), b.to(out.scalar_type()));
}

void add_projection(at::Tensor& out, const at::Tensor& residual, const at::Tensor& x,
                    const at::Tensor& w) {
  if (out.scalar_type() != at::kBFloat16) {
    at::addmm_out(out, residual, x, w.t());
    return;
  }
  at::mm_out(out, x, w.t());
  out.add_(residual);
}

}  // namespace quern::policy
