# Python modules as references and candidates of lane `pytorch` are, for python_texts.py.

REFERENCE = '''\
"""Scaled dot-product attention with a mask, and a feed-forward part."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Heads share one projection."""

    def __init__(self, width: int, heads: int, longest: int = 1024) -> None:
        super().__init__()
        assert width % heads == 0, f"{width} is not divisible by {heads}"
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.heads = heads
        # Lower triangle: a position sees what is before it.
        self.register_buffer(
            "mask",
            torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest),
        )

    def forward(self, x):
        batch, length, width = x.size()
        q, k, v = self.project(x).split(width, dim=2)
        q = q.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        k = k.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
        out = F.softmax(scores, dim=-1) @ v
        return self.join(out.transpose(1, 2).contiguous().view(batch, length, width))


class Model(nn.Module):
    def __init__(self, width, heads, longest):
        super(Model, self).__init__()
        self.before = nn.LayerNorm(width)
        self.attention = Attention(width, heads, longest)
        self.between = nn.LayerNorm(width)
        self.feed = nn.Sequential(*[
            nn.Linear(width, 4 * width),  # wide
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width),  # narrow again
        ])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        if self.training and x.dim() != 3:
            raise ValueError(f"three dimensions are needed, got {x.dim()!r:>4}")
        return x + self.feed(self.between(x))


batch_size, length = 16, 128
width = 256


def get_inputs():
    return [torch.rand(batch_size, length, width)]


def get_init_inputs():
    return [width, 8, length]
'''

# The same module as somebody else would lay it out.
REFERENCE_AGAIN = (
    "# Attention, laid out anew.\n"
    + REFERENCE.replace("    ", "\t")
    .replace("\t\t\t\"mask\",\n", "\t\t  \"mask\",   # its name\n\n")
    .replace(" = ", "=")
    .replace("class ", "\n\n# ---------\nclass ")
    .replace("return x + self", "return \\\n x + self")
    .rstrip("\n")
)

INLINE_CUDA = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// One thread an element; the bias is that of the element's column.
__global__ void bias_gelu(const float* x, const float* bias, float* y, int columns, long long size) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= size) return;
  const float v = x[i] + bias[i % columns];
  y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));   /* \\n stays as it is */
}

torch::Tensor bias_gelu_forward(torch::Tensor x, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  const int threads = 256;
  const long long size = x.numel();
  bias_gelu<<<(size + threads - 1) / threads, threads>>>(
      x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1), size);
  return y;
}
"""

declaration = "torch::Tensor bias_gelu_forward(torch::Tensor x, torch::Tensor bias);"

module = load_inline(
    name="bias_gelu",
    cpp_sources=declaration,
    cuda_sources=source,
    functions=["bias_gelu_forward"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, rows: int, columns: int):
        super().__init__()
        self.linear = nn.Linear(rows, columns, bias=False)
        self.bias = nn.Parameter(torch.zeros(columns))
        self.module = module

    def forward(self, x):
        # The product is cuBLAS's.
        y = self.linear(x)
        try:
            return self.module.bias_gelu_forward(y.contiguous(), self.bias)
        except RuntimeError:
            return torch.nn.functional.gelu(y + self.bias)
'''

TRITON = '''\
import torch, torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (512, 1024) for warps in (4, 8)],
    key=["columns"],
)
@triton.jit
def softmax_rows(
    x_ptr, y_ptr,      # both contiguous
    columns,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * columns
    y_ptr += row * columns

    highest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < columns, other=-float("inf"))
        new = tl.maximum(highest, x)
        total = total * tl.exp(highest - new) + tl.exp(x - new)
        highest = new
    most = tl.max(highest, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(highest - most), axis=0)
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < columns, other=0.0)
        tl.store(y_ptr + at, tl.exp(x - most) * scale, mask=at < columns)


class ModelNew(nn.Module):
    @staticmethod
    def _grid(rows): return lambda meta: (rows,)

    def forward(self, x):
        x = x.contiguous(); y = torch.empty_like(x)
        rows, columns = x.shape
        if not (x.is_cuda and columns > 1): return torch.softmax(x, dim=1)
        softmax_rows[self._grid(rows)](x, y, columns)
        return y
'''

MODULES = {
    "a reference": REFERENCE,
    "a reference, laid out anew": REFERENCE_AGAIN,
    "a candidate with inline CUDA": INLINE_CUDA,
    "a candidate with Triton": TRITON,
}
