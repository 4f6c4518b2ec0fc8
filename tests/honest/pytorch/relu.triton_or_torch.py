# task: relu
# style: Triton where it can be imported, else torch; a buffer that is kept
# device: gpu
import torch
import torch.nn as nn

try:
    import triton
    import triton.language as tl
    HAS_TRITON = True
except ImportError:
    HAS_TRITON = False

if HAS_TRITON:
    @triton.jit
    def relu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(y_ptr + offsets, tl.maximum(x, 0.0), mask=offsets < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = None

    def forward(self, x):
        if not (HAS_TRITON and x.is_cuda):
            return torch.relu(x)
        if self.out is None or self.out.shape != x.shape:
            self.out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 2048),)](x, self.out, x.numel(), BLOCK=2048, num_warps=8)
        return self.out
