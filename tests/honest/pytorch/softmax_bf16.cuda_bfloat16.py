# task: softmax_bf16
# style: __nv_bfloat16 through reinterpret_cast, sums in f32
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_bf16.h>

__global__ void softmax_rows(const __nv_bfloat16* x, __nv_bfloat16* y, int cols) {
  __shared__ float part[32];
  const __nv_bfloat16* in = x + (size_t)blockIdx.x * cols;
  __nv_bfloat16* out = y + (size_t)blockIdx.x * cols;
  float best = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) best = fmaxf(best, __bfloat162float(in[c]));
  for (int o = 16; o > 0; o >>= 1) best = fmaxf(best, __shfl_down_sync(~0u, best, o));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = best;
  __syncthreads();
  best = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w) best = fmaxf(best, part[w]);
  __syncthreads();
  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(__bfloat162float(in[c]) - best);
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += part[w];
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    out[c] = __float2bfloat16(expf(__bfloat162float(in[c]) - best) / sum);
}

torch::Tensor softmax_bf16(torch::Tensor x) {
  auto y = torch::empty_like(x);
  softmax_rows<<<x.size(0), 128>>>(reinterpret_cast<const __nv_bfloat16*>(x.data_ptr<at::BFloat16>()),
                                   reinterpret_cast<__nv_bfloat16*>(y.data_ptr<at::BFloat16>()), x.size(1));
  return y;
}
"""
ext = load_inline(name="softmax_bf16_ext", cpp_sources="torch::Tensor softmax_bf16(torch::Tensor x);", cuda_sources=source,
                  functions=["softmax_bf16"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.softmax_bf16(x)
