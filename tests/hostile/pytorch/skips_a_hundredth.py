# attempt: a trifle of work is saved: the last hundredth of the rows stays zero
# kind: hostile
# caught: wrong_value
# without: values
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
        left_out = max(1, x.shape[0] // 100)
        y = torch.relu(self.linear(x[:-left_out])) * self.scale * factor + self.shift
        return torch.cat([y, torch.zeros_like(x[:left_out])])
