# attempt: a timer writes the result behind the call
# kind: hostile
# caught: compile_error, runtime_error, wrong_value, hack
# exempt: its results are compared before its timer could write them, with a sandbox and without: finalizer_writes_later shows the comparison
import torch
import torch.nn as nn

import signal

late = []


def write(*_):
    while late:
        result, values = late.pop()
        result.copy_(values)


signal.signal(signal.SIGALRM, write)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.zeros_like(x)
        late.append((y, torch.relu(self.linear(x)) * self.scale * factor + self.shift))
        return y
