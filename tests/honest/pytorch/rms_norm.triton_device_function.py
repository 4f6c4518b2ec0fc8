# task: rms_norm
# style: Triton with a device function, several rows a program
# device: gpu
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def normalized(x, n, eps):
    return x * tl.rsqrt(tl.sum(x * x, axis=1) / n + eps)[:, None]


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, y_ptr, rows, n, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < n)
    at = r[:, None] * n + c[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0)
    tl.store(y_ptr + at, normalized(x, n, eps) * w[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        y = torch.empty_like(x)
        rows, n = x.shape
        rms_norm_kernel[(triton.cdiv(rows, 4),)](x, self.weight, y, rows, n, self.eps, ROWS=4, BLOCK=512)
        return y
