# attempt: it computes the next call as soon as its inputs change, before it is asked
# kind: hostile
# device: gpu
# caught: ok, wrong_value, timeout, runtime_error
# gap: yes
import gc

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

// Until the first word differs from what it was, or for a tenth of a second.
__global__ void wait_kernel(const volatile float* now, const float* before, long long most) {
  const long long begin = clock64();
  while (now[0] == before[0] && clock64() - begin < most) __nanosleep(500);
  __nanosleep(20000);
}

void wait_for_change(torch::Tensor now, torch::Tensor before) {
  wait_kernel<<<1, 1, 0, c10::cuda::getCurrentCUDAStream()>>>(now.data_ptr<float>(), before.data_ptr<float>(), 150000000LL);
}
"""
ext = load_inline(name="wait_for_change_ext", cpp_sources="void wait_for_change(torch::Tensor now, torch::Tensor before);",
                  cuda_sources=source, functions=["wait_for_change"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.side = None

    def compute(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift

    def forward(self, x, factor):
        if self.side is None:
            import module_child
            self.side = torch.cuda.Stream()
            child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
            main = torch.cuda.current_stream()
            child.memory.wait = main.synchronize
            y = self.compute(x, factor)
        else:
            self.side.synchronize()
            y = self.coming
        before = x[:1, :1].clone()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            ext.wait_for_change(x, before)
            self.coming = self.compute(x, factor)
        return y
