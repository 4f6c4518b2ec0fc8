# task: relu
# style: the kernel works in place on a copy of its own
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void relu_(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && y[i] < 0.f) y[i] = 0.f;
}
void relu_in_place(torch::Tensor y) {
  int n = (int)y.numel();
  relu_<<<(n + 511) / 512, 512>>>(y.data_ptr<float>(), n);
}
"""
ext = load_inline(name="relu_in_place_ext", cpp_sources="void relu_in_place(torch::Tensor y);", cuda_sources=source,
                  functions=["relu_in_place"])


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        ext.relu_in_place(y)
        return y
