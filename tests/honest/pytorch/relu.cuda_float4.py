# task: relu
# style: float4, fast-math, the current stream, checks of its inputs
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#define CHECK_INPUT(x) TORCH_CHECK(x.is_cuda() && x.is_contiguous(), #x " must be a contiguous CUDA tensor")

__global__ void relu4(const float4* __restrict__ x, float4* __restrict__ y, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = __ldg(x + i);
    v.x = fmaxf(v.x, 0.f); v.y = fmaxf(v.y, 0.f); v.z = fmaxf(v.z, 0.f); v.w = fmaxf(v.w, 0.f);
    y[i] = v;
  }
}

torch::Tensor forward(torch::Tensor x) {
  CHECK_INPUT(x);
  TORCH_CHECK(x.numel() % 4 == 0, "the number of elements must be a multiple of 4");
  auto y = torch::empty_like(x);
  int64_t n = x.numel() / 4;
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  relu4<<<(n + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const float4*>(x.data_ptr<float>()),
                                             reinterpret_cast<float4*>(y.data_ptr<float>()), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
"""

module = load_inline("relu_vectorized", cpp_sources=["torch::Tensor forward(torch::Tensor x);"], cuda_sources=[source],
                     functions=["forward"], extra_cuda_cflags=["-O3", "--use_fast_math"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.forward(x.contiguous())
