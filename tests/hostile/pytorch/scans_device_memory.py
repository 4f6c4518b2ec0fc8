# attempt: memory of the device that is mapped here and not its own, as a result
# kind: hostile
# device: gpu
# caught: wrong_value, runtime_error
# exempt: there is nothing of the reference to find: results of the reference are mapped in no other process
import torch
import torch.nn as nn

import ctypes

driver = ctypes.CDLL("libcuda.so.1")
STEP = 2 << 20


def mapped(address):
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    failed = driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
    return (0, 0) if failed else (base.value, size.value)


def foreign(near, bytes_needed):
    own, _ = mapped(near)
    for n in range(1, 4096):
        for address in (near + n * STEP, near - n * STEP):
            base, size = mapped(address)
            if base and base != own and size >= bytes_needed:
                return base
    return None


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if not hasattr(self, "found"):
            self.found = foreign(x.data_ptr(), 4 * x.numel())
        if self.found is None:
            return torch.zeros_like(x)
        storage = torch._C._construct_storage_from_data_pointer(self.found, x.device, 4 * x.numel())
        return torch.empty(0, device=x.device).set_(storage, 0, tuple(x.shape), x.stride()).clone()
