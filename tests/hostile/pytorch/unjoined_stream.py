# attempt: work on a stream of its own that nothing waits for
# kind: hostile
# device: gpu
# caught: wrong_value, ok
# exempt: whether its work is done in time is a race: what is not there when its outputs are copied is wrong_value
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if not hasattr(self, "stream"):
            self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y
