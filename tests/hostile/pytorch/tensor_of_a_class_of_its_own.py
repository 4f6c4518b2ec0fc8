# attempt: a tensor of a class of its own
# kind: hostile
# caught: wrong_dtype
# exempt: without the check of its type there is no memory to copy out, and nothing to compare
import torch
import torch.nn as nn

class Mine(torch.Tensor):
    pass

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y.as_subclass(Mine)
