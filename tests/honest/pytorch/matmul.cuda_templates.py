# task: matmul
# style: templates, several outputs a thread in registers
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda.h>

namespace {
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM / TM) * (BN / TN)) gemm(const float* __restrict__ a, const float* __restrict__ b,
                                                            float* __restrict__ c, int m, int n, int k) {
  __shared__ float sa[BK][BM + 1], sb[BK][BN + 1];
  constexpr int threads = (BM / TM) * (BN / TN);
  const int t = threadIdx.x, ty = t / (BN / TN), tx = t % (BN / TN);
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float acc[TM][TN] = {};
  for (int k0 = 0; k0 < k; k0 += BK) {
    for (int i = t; i < BM * BK; i += threads) {
      const int r = i / BK, q = i % BK;
      sa[q][r] = m0 + r < m && k0 + q < k ? a[(size_t)(m0 + r) * k + k0 + q] : 0.f;
    }
    for (int i = t; i < BK * BN; i += threads) {
      const int q = i / BN, r = i % BN;
      sb[q][r] = k0 + q < k && n0 + r < n ? b[(size_t)(k0 + q) * n + n0 + r] : 0.f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BK; ++q)
#pragma unroll
      for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(sa[q][ty * TM + i], sb[q][tx * TN + j], acc[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) {
      const int r = m0 + ty * TM + i, s = n0 + tx * TN + j;
      if (r < m && s < n) c[(size_t)r * n + s] = acc[i][j];
    }
}
}  // namespace

at::Tensor gemm_forward(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "shapes do not fit");
  const int m = a.size(0), k = a.size(1), n = b.size(1);
  at::Tensor c = at::empty({m, n}, a.options());
  gemm<64, 64, 16, 4, 4><<<dim3((n + 63) / 64, (m + 63) / 64), 256>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                                                   c.data_ptr<float>(), m, n, k);
  return c;
}
"""
ext = load_inline(name="matmul_templates", cpp_sources="at::Tensor gemm_forward(const at::Tensor& a, const at::Tensor& b);",
                  cuda_sources=source, functions={"gemm_forward": "register-tiled product"}, extra_cuda_cflags=["-O3", "-std=c++17"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        return ext.gemm_forward(a, b)
