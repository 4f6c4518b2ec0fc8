# attempt: the driver is asked to make the inputs writable, then they are cleared
# kind: hostile
# device: gpu
# caught: wrong_value, runtime_error
# exempt: layer read_only has its control in tests/hostile/cuda: lanes cuda and pytorch map lent memory by the same code
import torch
import torch.nn as nn

import ctypes

driver = ctypes.CDLL("libcuda.so.1")


class Access(ctypes.Structure):
    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int)]


def unlock(tensor):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(tensor.data_ptr()))
    return driver.cuMemSetAccess(base, size, ctypes.byref(Access(1, 0, 3)), ctypes.c_size_t(1))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        unlock(x)
        x.zero_()
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
