# attempt: a fault on the device
# kind: hostile
# device: gpu
# caught: runtime_error
# exempt: it asks for no verdict that it is not given
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        index = torch.full((1,), 1 << 40, device=x.device)
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        y[0, 0] = x.reshape(-1)[index][0]
        return y
