# attempt: memory of results that were freed
# kind: hostile
# caught: wrong_value
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
        for _ in range(8):
            torch.empty_like(x)
        return torch.empty_like(x)
