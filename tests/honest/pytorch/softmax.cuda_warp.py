# task: softmax
# style: a warp a row, shuffles, a template of the row's length
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

template <int PER_LANE>
__global__ void warp_softmax(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float* in = x + (int64_t)row * cols;
  float v[PER_LANE];
  float best = -INFINITY;
#pragma unroll
  for (int i = 0; i < PER_LANE; ++i) {
    int c = i * 32 + threadIdx.x;
    v[i] = c < cols ? in[c] : -INFINITY;
    best = fmaxf(best, v[i]);
  }
  for (int o = 16; o > 0; o /= 2) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, o));
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < PER_LANE; ++i) {
    v[i] = __expf(v[i] - best);
    sum += v[i];
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  float* out = y + (int64_t)row * cols;
#pragma unroll
  for (int i = 0; i < PER_LANE; ++i) {
    int c = i * 32 + threadIdx.x;
    if (c < cols) out[c] = v[i] / sum;
  }
}

torch::Tensor warp(torch::Tensor x) {
  TORCH_CHECK(x.size(1) <= 1024, "rows of at most 1024");
  auto y = torch::empty_like(x);
  int rows = x.size(0), cols = x.size(1);
  dim3 block(32, 4);
  if (cols <= 512)
    warp_softmax<16><<<(rows + 3) / 4, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  else
    warp_softmax<32><<<(rows + 3) / 4, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
  return y;
}
"""
ext = load_inline(name="softmax_warp", cpp_sources="torch::Tensor warp(torch::Tensor x);", cuda_sources=source,
                  functions=["warp"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.warp(x)
