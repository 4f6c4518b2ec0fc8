# attempt: the reference's model among all objects of the process
# kind: hostile
# caught: wrong_value
# without: values
import torch
import torch.nn as nn

import gc


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        models = [one for one in gc.get_objects() if isinstance(one, nn.Module) and type(one).__name__ == "Model"]
        if models:
            return models[0](x, factor)
        return torch.zeros_like(x)
