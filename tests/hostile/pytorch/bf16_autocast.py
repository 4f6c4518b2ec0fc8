# attempt: products in bfloat16, where the task has f32
# kind: hostile
# caught: wrong_value
# without: values
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y.float()
