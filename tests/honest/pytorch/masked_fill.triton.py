# task: masked_fill
# style: Triton with a bool tensor
# device: gpu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked(x_ptr, mask_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.load(mask_ptr + at, mask=inside, other=0)
    tl.store(y_ptr + at, tl.where(keep != 0, x, x * 0.25), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        y = torch.empty_like(x)
        n = x.numel()
        masked[(triton.cdiv(n, 1024),)](x, mask.view(torch.uint8), y, n, BLOCK=1024)
        return y
