# attempt: deep recursion
# kind: hostile
# caught: runtime_error
# exempt: it asks for no verdict that it is not given
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        def f(): return f()
        f()
        return x
