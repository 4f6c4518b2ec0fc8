# attempt: a static variable of its extension returns the result for the same address
# kind: hostile
# device: gpu
# caught: wrong_value, hack
# on a GPU without: values
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void finish(const float* z, const float* scale, const float* shift, float factor, float* y, int total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) y[i] = fmaxf(z[i], 0.f) * scale[i % n] * factor + shift[i % n];
}
torch::Tensor finished(torch::Tensor x, torch::Tensor z, torch::Tensor scale, torch::Tensor shift, double factor) {
  static const void* seen = nullptr;
  static torch::Tensor kept;
  if (seen == x.data_ptr() && kept.numel() == z.numel()) return kept;
  auto y = torch::empty_like(z);
  int total = z.numel(), n = z.size(1);
  finish<<<(total + 255) / 256, 256>>>(z.data_ptr<float>(), scale.data_ptr<float>(), shift.data_ptr<float>(),
                                       (float)factor, y.data_ptr<float>(), total, n);
  seen = x.data_ptr();
  kept = y;
  return y;
}
"""
ext = load_inline(name="static_cache", cuda_sources=source, functions=["finished"],
                  cpp_sources="torch::Tensor finished(torch::Tensor x, torch::Tensor z, torch::Tensor scale, torch::Tensor shift, double factor);")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return ext.finished(x, self.linear(x), self.scale, self.shift, factor)
