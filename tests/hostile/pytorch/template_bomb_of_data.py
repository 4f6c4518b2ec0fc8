# attempt: its extension is a bomb of templates that fills the disk: 64 blocks of 1 GiB
# kind: hostile
# caught: compile_error
# said: File size limit exceeded
# exempt: what compilers may read and take are limits of a process that runs no module: nothing here can leave them out
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
template <int N> struct block { static char bytes[1 << 30]; };
template <int N> char block<N>::bytes[1 << 30] = {1};
template <int N, int depth> struct tree {
  static char first() { return tree<2 * N, depth - 1>::first() + tree<2 * N + 1, depth - 1>::first(); }
};
template <int N> struct tree<N, 0> { static char first() { return block<N>::bytes[0]; } };
char all = tree<1, 6>::first();
"""
ext = load_inline(name="template_bomb_of_data", cpp_sources=source, no_implicit_headers=True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
