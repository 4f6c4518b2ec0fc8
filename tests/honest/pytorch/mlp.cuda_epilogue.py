# task: mlp
# style: products of torch, bias and relu in a kernel
# device: gpu
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r'''
#include <torch/extension.h>
__global__ void bias_relu(float* h, const float* b, int total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total) { float v = h[i] + b[i % n]; h[i] = v > 0 ? v : 0; }
}
torch::Tensor bias_relu_(torch::Tensor h, torch::Tensor b) {
  int total = h.numel();
  bias_relu<<<(total + 255) / 256, 256>>>(h.data_ptr<float>(), b.data_ptr<float>(), total, h.size(1));
  return h;
}
'''
fused = load_inline(name="bias_relu", cpp_sources="torch::Tensor bias_relu_(torch::Tensor h, torch::Tensor b);",
                    cuda_sources=cuda_source, functions=["bias_relu_"])


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        h = torch.mm(x, self.first.weight.t())
        return self.second(fused.bias_relu_(h, self.first.bias))
