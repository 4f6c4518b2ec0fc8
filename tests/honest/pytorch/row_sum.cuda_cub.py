# task: row_sum
# style: cub::BlockReduce
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cub/cub.cuh>

constexpr int kThreads = 256;

__global__ void row_sum(const float* x, float* y, int n) {
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += kThreads) s += x[(size_t)blockIdx.x * n + i];
  float total = Reduce(storage).Sum(s);
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

torch::Tensor row_sum_cuda(torch::Tensor x) {
  auto y = torch::empty({x.size(0), 1}, x.options());
  row_sum<<<x.size(0), kThreads>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;
}
"""
ext = load_inline(name="row_sum_cub", cpp_sources="torch::Tensor row_sum_cuda(torch::Tensor x);", cuda_sources=source,
                  functions=["row_sum_cuda"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_sum_cuda(x)
