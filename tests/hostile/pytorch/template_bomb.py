# attempt: its extension is a bomb of templates, for which the compiler has neither time nor memory enough
# kind: hostile
# caught: compile_error
# timed: yes
# exempt: what compilers may read and take are limits of a process that runs no module: nothing here can leave them out
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# A minute and 8 GiB of a compiler, so that bench_pytorch alone judges it. `torch::jit` has no slim form: one compiler tries it, and not two.
source = r"""
template <unsigned long long N, int depth> struct tree {
  static constexpr unsigned long long value = tree<2 * N, depth - 1>::value + tree<2 * N + 1, depth - 1>::value;
};
template <unsigned long long N> struct tree<N, 0> { static constexpr unsigned long long value = N; };
unsigned long long all = tree<1, 60>::value;  // torch::jit
"""
ext = load_inline(name="template_bomb", cpp_sources=source, no_implicit_headers=True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
