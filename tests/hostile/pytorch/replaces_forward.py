# attempt: its forward replaces itself by the first result
# kind: hostile
# caught: wrong_value, hack
# without: fresh_content
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        self.forward = lambda x, factor: y
        return y
