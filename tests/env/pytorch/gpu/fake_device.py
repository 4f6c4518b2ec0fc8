"""In the place of module_device.py, for tests: a device whose memory is the host's (fake_device.cpp)."""
import ctypes

import torch

import module_device_of_gpus
from module_device_of_gpus import HostMemory, scales  # noqa: F401
from module_tensors import flattened, view


class DeviceMemory(module_device_of_gpus.DeviceMemory):
    device = torch.device("cpu")
    view = staticmethod(view)
    waited = 0

    def __init__(self, library):
        super().__init__(library)
        self.waits = lambda: None

    def open(self):
        problem = ctypes.create_string_buffer(400)
        if self.library.quern_window_open(0, 0, ctypes.byref(self.window), problem, 400):
            raise OSError(problem.value.decode())
        self.scratch = torch.zeros(64)

    def capture(self, work):
        if getattr(torch, "refuses_graphs", False):
            raise RuntimeError("operation not permitted when stream is capturing")
        results = work()

        def replay():
            for into, value in zip(flattened(results), flattened(work()), strict=True):
                into.copy_(value)
        return replay, results

    def give_back(self):
        pass
