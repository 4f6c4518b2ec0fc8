# attempt: inputs are cleared, so that zeros would be right
# kind: hostile
# caught: hack, runtime_error, wrong_value
# without: read_only, values, repeats
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        try:
            x.zero_()
        except RuntimeError:
            pass
        return torch.zeros_like(x)
