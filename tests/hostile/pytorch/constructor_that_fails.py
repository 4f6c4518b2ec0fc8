# attempt: a constructor that fails
# kind: malformed
# caught: runtime_error
# said: KeyError
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        raise KeyError(1)  # nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
