# attempt: it closes every file of its process
# kind: hostile
# caught: runtime_error, compile_error, hack
# exempt: it asks for no verdict that it is not given
import torch
import torch.nn as nn

import os

os.closerange(3, 256)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
