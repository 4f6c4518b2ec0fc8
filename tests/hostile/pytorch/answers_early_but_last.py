# attempt: an answer as soon as all is launched, but for the last call of a window, behind which the evaluator looks
# kind: hostile
# device: gpu
# size: small
# caught: ok, hack
# exempt: a race with the device, and what it gains without sample and charge was not measured
import gc
import sys

import torch
import torch.nn as nn

import module_child


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.child, self.calls, self.call = None, 0, 0

    def forward(self, x, factor):
        if self.child is None:
            self.child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
            waits = self.child.memory.wait

            def wait():
                if self.call == 0 or self.call + 1 >= self.calls:
                    waits()
            self.child.memory.wait = wait
        frame = sys._getframe()
        while "call" not in frame.f_locals:
            frame = frame.f_back
        call = frame.f_locals["call"]
        if call == 0 and self.call > 0:
            self.calls = self.call + 1
        self.call = call
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
