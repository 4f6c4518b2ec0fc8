# attempt: comparisons of torch are always true, results are zeros
# kind: hostile
# caught: wrong_value
# without: values
import torch
import torch.nn as nn

torch.allclose = torch.equal = lambda *_, **__: True
torch.isclose = lambda a, *_, **__: torch.ones_like(a, dtype=torch.bool)
torch.testing.assert_close = lambda *_, **__: None
torch.Tensor.allclose = torch.Tensor.equal = lambda *_, **__: True


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.zeros_like(x)
