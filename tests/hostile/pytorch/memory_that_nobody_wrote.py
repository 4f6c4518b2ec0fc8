# attempt: memory that nobody wrote
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
        torch.empty_like(x).fill_(1)
        return torch.empty_like(x)
