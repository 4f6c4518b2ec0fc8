# task: scale_shift
# style: a scalar argument, int64 indices, const auto&
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void fused_kernel(const float* x, const float* scale, const float* shift, float factor, float* y, int64_t total,
                             int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int64_t c = i % n;
  const float v = x[i] * scale[c] * factor + shift[c];
  y[i] = v > 0.f ? v : 0.f;
}
torch::Tensor fused(torch::Tensor x, torch::Tensor scale, torch::Tensor shift, float factor) {
  const auto xc = x.contiguous();
  auto y = torch::empty_like(xc);
  const auto total = xc.numel();
  fused_kernel<<<(total + 255) / 256, 256>>>(xc.data_ptr<float>(), scale.data_ptr<float>(), shift.data_ptr<float>(), factor,
                                             y.data_ptr<float>(), total, xc.size(-1));
  return y;
}
"""
ext = load_inline(name="scale_shift_ext",
                  cpp_sources="torch::Tensor fused(torch::Tensor x, torch::Tensor scale, torch::Tensor shift, float factor);",
                  cuda_sources=source, functions=["fused"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = nn.Parameter(torch.rand(features))

    def forward(self, x, factor):
        return ext.fused(x, self.scale, self.shift, factor)
