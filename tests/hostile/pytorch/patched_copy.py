# attempt: copies of tensors do nothing, so that nothing is delivered
# kind: hostile
# caught: wrong_value
# without: values, repeats
import torch
import torch.nn as nn

torch.Tensor.copy_ = lambda self, *_, **__: self


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return x
