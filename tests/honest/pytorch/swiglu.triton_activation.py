# task: swiglu
# style: products of torch, the rest in Triton, in place on what is its own
# device: gpu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_mul(gate_ptr, up_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate_ptr + at, mask=at < n)
    u = tl.load(up_ptr + at, mask=at < n)
    tl.store(gate_ptr + at, g * tl.sigmoid(g) * u, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate(x), self.up(x)
        n = gate.numel()
        silu_mul[(triton.cdiv(n, 1024),)](gate, up, n, BLOCK=1024)
        return gate
