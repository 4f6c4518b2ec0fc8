# attempt: a new stream and a handle for each call, never joined
# kind: hostile
# device: gpu
# caught: wrong_value, ok, runtime_error
# exempt: whether its work is done in time is a race: what is not there when its outputs are copied is wrong_value
import torch
import torch.nn as nn

streams = []


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        streams.append(torch.cuda.Stream())
        with torch.cuda.stream(streams[-1]):
            y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y
