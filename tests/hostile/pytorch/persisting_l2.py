# attempt: weights in a part of the device's cache that is set aside, so that a flush would not reach them
# kind: hostile
# device: gpu
# caught: ok
# exempt: it is right, and no layer takes anything from it: that it gains nothing is its verdict
import torch
import torch.nn as nn

import ctypes

driver = ctypes.CDLL("libcuda.so.1")


class Window(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("hit_ratio", ctypes.c_float), ("hit", ctypes.c_int),
                ("miss", ctypes.c_int), ("rest", ctypes.c_byte * 64)]


def persist(stream, tensor):
    driver.cuCtxSetLimit(6, ctypes.c_size_t(16 << 20))
    window = Window(tensor.data_ptr(), tensor.numel() * tensor.element_size(), 1.0, 2, 1)
    return driver.cuStreamSetAttribute(ctypes.c_void_p(stream.cuda_stream), 1, ctypes.byref(window))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if not hasattr(self, "stream"):
            self.stream = torch.cuda.Stream()
            persist(self.stream, self.linear.weight)
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        main.wait_stream(self.stream)
        y.record_stream(main)
        return y
