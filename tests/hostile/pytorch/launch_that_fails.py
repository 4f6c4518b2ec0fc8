# attempt: a launch with more shared memory than there is, whose error nobody asks for
# kind: hostile
# device: gpu
# caught: wrong_value, runtime_error
# exempt: it asks for no verdict that it is not given
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void copy(const float* z, float* y, int total) {
  extern __shared__ float room[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) y[i] = z[i] + 0 * room[0];
}
torch::Tensor copied(torch::Tensor z) {
  auto y = torch::empty_like(z);
  int total = z.numel();
  copy<<<(total + 255) / 256, 256, 1 << 20>>>(z.data_ptr<float>(), y.data_ptr<float>(), total);
  return y;
}
"""
ext = load_inline(name="launch_that_fails", cuda_sources=source, functions=["copied"],
                  cpp_sources="torch::Tensor copied(torch::Tensor z);")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return ext.copied(torch.relu(self.linear(x)) * self.scale * factor + self.shift)
