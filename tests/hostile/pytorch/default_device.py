# attempt: a default device without memory
# kind: hostile
# device: core
# caught: wrong_value, wrong_dtype, runtime_error, compile_error
# exempt: what its own calls make has no memory: it harms itself alone
import torch
import torch.nn as nn

torch.set_default_device('meta')


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
