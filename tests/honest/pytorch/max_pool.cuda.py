# task: max_pool
# style: an index for each output, tensors of four dimensions
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void pool(const float* x, float* y, int planes, int h, int w, int k) {
  int oh = h / k, ow = w / k;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= planes * oh * ow) return;
  int c = i % ow, r = i / ow % oh, p = i / (ow * oh);
  const float* in = x + ((size_t)p * h + r * k) * w + c * k;
  float best = -INFINITY;
  for (int a = 0; a < k; ++a)
    for (int b = 0; b < k; ++b) best = fmaxf(best, in[a * w + b]);
  y[i] = best;
}
torch::Tensor max_pool(torch::Tensor x, int64_t k) {
  auto y = torch::empty({x.size(0), x.size(1), x.size(2) / k, x.size(3) / k}, x.options());
  int total = y.numel();
  pool<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0) * x.size(1), x.size(2), x.size(3), k);
  return y;
}
"""
ext = load_inline(name="max_pool_ext", cpp_sources="torch::Tensor max_pool(torch::Tensor x, int64_t k);", cuda_sources=source,
                  functions=["max_pool"])


class ModelNew(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, x):
        return ext.max_pool(x, self.kernel)
