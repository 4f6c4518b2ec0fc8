# task: scale_shift
# style: Triton, a grid of two axes, a scalar argument
# device: gpu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused(x_ptr, scale_ptr, shift_ptr, y_ptr, factor, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    scale = tl.load(scale_ptr + c, mask=c < cols) * factor
    shift = tl.load(shift_ptr + c, mask=c < cols)
    at = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    y = tl.load(x_ptr + at, mask=mask) * scale[None, :] + shift[None, :]
    tl.store(y_ptr + at, tl.maximum(y, 0.0), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = nn.Parameter(torch.rand(features))

    def forward(self, x, factor):
        y = torch.empty_like(x)
        rows, cols = x.shape
        fused[(triton.cdiv(rows, 16), triton.cdiv(cols, 128))](x, self.scale, self.shift, y, factor, rows, cols, BR=16, BC=128)
        return y
