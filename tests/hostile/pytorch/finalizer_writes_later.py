# attempt: an object writes the result when it is collected, behind the call
# kind: hostile
# caught: wrong_value, hack
# without: values, repeats
import torch
import torch.nn as nn

class Late:
    def __init__(self, result, values):
        self.result, self.values = result, values

    def __del__(self):
        self.result.copy_(self.values)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.zeros_like(x)
        self.late = Late(y, torch.relu(self.linear(x)) * self.scale * factor + self.shift)
        return y
