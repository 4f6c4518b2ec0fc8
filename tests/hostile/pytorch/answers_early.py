# attempt: an answer while the device still computes: hundred times the work, no wait
# kind: hostile
# device: gpu
# caught: ok, wrong_value, hack
# exempt: a case of its own in hostile_on_gpu_test.cpp has its control: charge, values, floor and sample
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

    def forward(self, x, factor):
        child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
        child.memory.wait = lambda: None
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        if not hasattr(self, "big"):
            self.big = torch.ones(8192, 8192, device=x.device)
            self.other = torch.empty_like(self.big)
        torch.mm(self.big, self.big, out=self.other)
        return y
