# attempt: the driver is asked to clear the inputs
# kind: hostile
# device: gpu
# caught: wrong_value, runtime_error, ok
# exempt: layer read_only has its control in tests/hostile/cuda: lanes cuda and pytorch map lent memory by the same code
import torch
import torch.nn as nn

import ctypes

driver = ctypes.CDLL("libcuda.so.1")


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        driver.cuMemsetD32_v2(ctypes.c_uint64(x.data_ptr()), ctypes.c_uint(0), ctypes.c_size_t(x.numel()))
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
