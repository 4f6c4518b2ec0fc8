# attempt: a device kept busy for seconds behind an answer
# kind: hostile
# device: gpu
# caught: timeout, runtime_error, wrong_value, ok
# exempt: that the next candidate is ok is judged in a case of its own: a process that ends takes its work along
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
        torch.cuda._sleep(1 << 33)
        return y
