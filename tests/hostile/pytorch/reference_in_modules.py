# attempt: the reference's class among imported modules
# kind: hostile
# caught: wrong_value
# without: values
import torch
import torch.nn as nn

import sys


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        for module in list(sys.modules.values()):
            model = getattr(module, "Model", None)
            if isinstance(model, type) and issubclass(model, nn.Module) and module.__name__ != __name__:
                return model(x.shape[1]).to(x.device)(x, factor)
        return torch.zeros_like(x)
