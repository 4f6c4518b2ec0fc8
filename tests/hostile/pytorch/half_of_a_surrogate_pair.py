# attempt: an exception whose words are half of a surrogate pair, which is no text, where its Triton kernels are learnt
# kind: hostile
# device: gpu
# caught: runtime_error, compile_error
# exempt: it asks for no verdict that it is not given: what could be had was infra_error, which blames the host
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def clear(y, n: tl.constexpr):
    tl.store(y + tl.arange(0, n), 0.0)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        raise RuntimeError("\ud800")
