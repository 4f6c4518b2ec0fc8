# attempt: nothing is delivered
# kind: hostile
# caught: wrong_value
# without: values, repeats
# on a GPU without: values
import torch
import torch.nn as nn

import module_child
module_child.Child.deliver = lambda *a: None

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.zeros_like(x)
