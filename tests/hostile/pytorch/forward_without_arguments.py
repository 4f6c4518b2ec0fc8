# attempt: a forward without arguments
# kind: malformed
# caught: runtime_error
# said: positional argument
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
