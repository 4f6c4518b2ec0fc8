# task: rms_norm
# style: two kernels with a buffer of its own between them
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <vector>

__global__ void inverse_norms(const float* x, float* inv, int n, float eps) {
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) {
    float v = x[(size_t)blockIdx.x * n + i];
    s += v * v;
  }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
  if (threadIdx.x == 0) inv[blockIdx.x] = rsqrtf(s / n + eps);
}

__global__ void apply(const float* x, const float* inv, const float* w, float* y, int n) {
  int c = blockIdx.y * blockDim.x + threadIdx.x;
  if (c < n) y[(size_t)blockIdx.x * n + c] = x[(size_t)blockIdx.x * n + c] * inv[blockIdx.x] * w[c];
}

std::vector<torch::Tensor> rms_norm(torch::Tensor x, torch::Tensor w, double eps) {
  int rows = x.size(0), n = x.size(1);
  auto inv = torch::empty({rows}, x.options());
  auto y = torch::empty_like(x);
  inverse_norms<<<rows, 32>>>(x.data_ptr<float>(), inv.data_ptr<float>(), n, (float)eps);
  apply<<<dim3(rows, (n + 255) / 256), 256>>>(x.data_ptr<float>(), inv.data_ptr<float>(), w.data_ptr<float>(),
                                              y.data_ptr<float>(), n);
  return {y, inv};
}
"""
ext = load_inline(name="rms_norm_ext", cpp_sources="""
#include <vector>
std::vector<torch::Tensor> rms_norm(torch::Tensor x, torch::Tensor w, double eps);""",
                  cuda_sources=source, functions=["rms_norm"])


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        return ext.rms_norm(x, self.weight, self.eps)[0]
