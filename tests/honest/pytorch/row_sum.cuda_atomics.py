# task: row_sum
# style: atomicAdd of parts, whose order differs from call to call
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void add_parts(const float* x, float* y, int n) {
  float s = 0.f;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.y) s += x[(size_t)blockIdx.x * n + i];
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
  if (threadIdx.x % 32 == 0) atomicAdd(&y[blockIdx.x], s);
}
torch::Tensor add(torch::Tensor x) {
  auto y = torch::zeros({x.size(0), 1}, x.options());
  add_parts<<<dim3(x.size(0), 4), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
ext = load_inline(name="row_sum_atomics", cpp_sources="torch::Tensor add(torch::Tensor x);", cuda_sources=source,
                  functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.add(x)
