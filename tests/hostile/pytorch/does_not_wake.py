# attempt: no launch when it is woken, so that the device changes to its context while its first call launches
# kind: hostile
# device: gpu
# size: small
# caught: ok
# exempt: it is right, and no layer takes anything from it: that it gains nothing is its verdict
import gc

import torch
import torch.nn as nn

import module_child


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.child = None

    def forward(self, x, factor):
        if self.child is None:
            self.child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
            self.child.memory.wake = lambda: None
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
