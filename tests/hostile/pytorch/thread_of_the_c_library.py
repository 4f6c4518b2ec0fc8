# attempt: a thread by the C library
# kind: reaching
# caught: compile_error, runtime_error
# without: thread_count
import torch
import torch.nn as nn

import ctypes

library = ctypes.CDLL(None)
handle = ctypes.c_uint64()
assert library.pthread_create(ctypes.byref(handle), None, library.pause, None) == 0


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
