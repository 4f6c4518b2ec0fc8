# task: relu
# style: PYBIND11_MODULE in the CUDA source, no functions=
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

template <typename scalar_t>
__global__ void relu_kernel(const scalar_t* in, scalar_t* out, size_t n) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = in[i] > scalar_t(0) ? in[i] : scalar_t(0);
}

torch::Tensor relu_forward(const torch::Tensor& in) {
  torch::Tensor out = torch::empty_like(in);
  const size_t n = in.numel();
  relu_kernel<float><<<(n + 1023) / 1024, 1024>>>(in.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("relu_forward", &relu_forward, "ReLU (CUDA)");
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ops = load_inline(name="relu_pybind", cpp_sources="", cuda_sources=source, with_cuda=True, verbose=False)

    def forward(self, x):
        return self.ops.relu_forward(x)
