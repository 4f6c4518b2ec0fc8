# task: layer_norm
# style: shuffles, rsqrtf, parameters passed to the kernel
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__inline__ __device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}

__global__ void layer_norm(const float* x, const float* w, const float* b, float* y, int n, float eps) {
  const float* in = x + (size_t)blockIdx.x * n;
  __shared__ float sums[32];
  __shared__ float mean, rstd;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += in[i];
  s = warp_sum(s);
  if (lane == 0) sums[warp] = s;
  __syncthreads();
  if (warp == 0) {
    s = warp_sum(lane < warps ? sums[lane] : 0.f);
    if (lane == 0) mean = s / n;
  }
  __syncthreads();
  float q = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) q += (in[i] - mean) * (in[i] - mean);
  q = warp_sum(q);
  if (lane == 0) sums[warp] = q;
  __syncthreads();
  if (warp == 0) {
    q = warp_sum(lane < warps ? sums[lane] : 0.f);
    if (lane == 0) rstd = rsqrtf(q / n + eps);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[(size_t)blockIdx.x * n + i] = (in[i] - mean) * rstd * w[i] + b[i];
}

torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  auto y = torch::empty_like(x);
  layer_norm<<<x.size(0), 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                 x.size(1), static_cast<float>(eps));
  return y;
}
"""
ext = load_inline(name="layer_norm_ext",
                  cpp_sources="torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);",
                  cuda_sources=source, functions=["layer_norm_cuda"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return ext.layer_norm_cuda(x, self.norm.weight, self.norm.bias, self.norm.eps)
