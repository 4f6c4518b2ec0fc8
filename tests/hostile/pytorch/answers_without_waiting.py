# attempt: an answer as soon as all is launched, with no work but its own
# kind: hostile
# device: gpu
# caught: ok, wrong_value, hack
# timed: yes
# exempt: a race with the device, and what it gains without sample and charge was not measured
import torch
import torch.nn as nn

import gc

import module_child


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        for one in gc.get_objects():
            if isinstance(one, module_child.Child):
                one.memory.wait = lambda: None

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
