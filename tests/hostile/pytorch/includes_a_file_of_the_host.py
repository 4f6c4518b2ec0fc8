# attempt: its extension includes a file of the host, so that the compiler's messages show it
# kind: hostile
# caught: compile_error
# said: fatal error: /etc/passwd
# exempt: what compilers may read and take are limits of a process that runs no module: nothing here can leave them out
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(name="includes_a_file", cpp_sources='#include "/etc/passwd"\n', no_implicit_headers=True)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
