# attempt: one row in the place of all where all rows are equal: right
# kind: hostile
# caught: ok
# exempt: it is right, and no layer takes anything from it: that it gains nothing is its verdict
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if bool((x == x[:1]).all()):
            row = x[:1]
            return (torch.relu(self.linear(row)) * self.scale * factor + self.shift).expand(x.shape)
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
