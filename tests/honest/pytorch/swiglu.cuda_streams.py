# task: swiglu
# style: two products on two streams, then a kernel on the current stream
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
__global__ void silu_mul(const float* g, const float* u, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = g[i] / (1.f + expf(-g[i])) * u[i];
}
torch::Tensor silu_mul_cuda(torch::Tensor g, torch::Tensor u) {
  auto y = torch::empty_like(g);
  int n = g.numel();
  silu_mul<<<(n + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(g.data_ptr<float>(), u.data_ptr<float>(),
                                                                          y.data_ptr<float>(), n);
  return y;
}
"""
ext = load_inline(name="silu_mul_ext", cpp_sources="torch::Tensor silu_mul_cuda(torch::Tensor g, torch::Tensor u);",
                  cuda_sources=source, functions=["silu_mul_cuda"])


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.side = None

    def forward(self, x):
        if self.side is None:
            self.side = torch.cuda.Stream()
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            up = self.up(x)
        gate = self.gate(x)
        main.wait_stream(self.side)
        up.record_stream(main)
        return ext.silu_mul_cuda(gate, up)
