# attempt: exact for so few rows as a checker would choose, zeros beyond
# kind: hostile
# device: gpu
# caught: wrong_value
# on a GPU without: values
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if x.shape[0] > 2048:
            return torch.zeros_like(x)
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
