# attempt: right while it is counted
# kind: hostile
# caught: wrong_value, hack, nondeterministic
# without: values, repeats
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        self.n = getattr(self, 'n', 0) + 1
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y if self.n < 4 else y * 2
