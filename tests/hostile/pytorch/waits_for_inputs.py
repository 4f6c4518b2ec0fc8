# attempt: it computes the next call as soon as its inputs change, before it is asked
# kind: hostile
# device: gpu
# size: small
# caught: wrong_value
# timed: yes
# on a GPU without: pause
import gc
import sys

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

import module_child

source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

// Until a number differs from what it was, or for two milliseconds. Then so long that what is copied behind it is there, too.
__global__ void wait_kernel(const volatile float* now, long long most, long long nap) {
  long long begin = clock64();
  const float before = *now;
  while (*now == before && clock64() - begin < most) {}
  begin = clock64();
  while (clock64() - begin < nap) {}
}

void wait_for_change(torch::Tensor now) {
  wait_kernel<<<1, 1, 0, c10::cuda::getCurrentCUDAStream()>>>(now.data_ptr<float>() + now.numel() - 1, 4000000LL, 20000LL);
}
"""
ext = load_inline(name="wait_for_change_ext", cpp_sources="void wait_for_change(torch::Tensor now);", cuda_sources=source,
                  functions=["wait_for_change"])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.child, self.calls, self.last_call, self.coming_call = None, 0, 0, None

    def compute(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift

    def forward(self, x, factor):
        if self.child is None:
            self.child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
            self.child.memory.wait = torch.cuda.current_stream().synchronize
            self.side = torch.cuda.Stream()
            # What is first on a stream takes longer than anybody waits here.
            with torch.cuda.stream(self.side):
                for _ in range(3):
                    ext.wait_for_change(x)
                    self.compute(x, factor)
            self.side.synchronize()
        frame = sys._getframe()
        while "call" not in frame.f_locals:
            frame = frame.f_back
        call = frame.f_locals["call"]
        if call == 0 and self.last_call > 0:
            self.calls = self.last_call + 1
        self.last_call = call
        if self.coming_call == call:
            self.side.synchronize()
            y = self.coming
        else:
            y = self.compute(x, factor)
        self.coming_call = None
        if call + 1 < self.calls:
            following = self.child.call_views(call + 1)[0][0]
            with torch.cuda.stream(self.side):
                ext.wait_for_change(following)
                self.coming = self.compute(following, factor)
            self.coming_call = call + 1
        return y
