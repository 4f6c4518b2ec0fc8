# attempt: differences have no size, all is true, results are zeros
# kind: hostile
# caught: wrong_value, wrong_shape, runtime_error, compile_error, hack
# without: values
import torch
import torch.nn as nn

import builtins

builtins.abs = lambda value: 0
builtins.all = builtins.any = lambda values: True


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.zeros_like(x)
