# task: relu
# style: two extensions, one built in the first call
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

positive = r"""
#include <torch/extension.h>
__global__ void mask_kernel(const float* x, float* m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) m[i] = x[i] > 0.f ? 1.f : 0.f;
}
torch::Tensor positive(torch::Tensor x) {
  auto m = torch::zeros_like(x);
  int n = x.numel();
  mask_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), m.data_ptr<float>(), n);
  return m;
}
"""
product = r"""
#include <torch/extension.h>
__global__ void product_kernel(const float* x, float* m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) m[i] *= x[i];
}
torch::Tensor product(torch::Tensor x, torch::Tensor m) {
  int n = x.numel();
  product_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), m.data_ptr<float>(), n);
  return m;
}
"""
first = load_inline(name="positive_ext", cpp_sources="torch::Tensor positive(torch::Tensor x);", cuda_sources=positive,
                    functions=["positive"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.second = None

    def forward(self, x):
        if self.second is None:
            self.second = load_inline(name="product_ext", cpp_sources="torch::Tensor product(torch::Tensor x, torch::Tensor m);",
                                      cuda_sources=product, functions=["product"])
        return self.second.product(x, first.positive(x))
