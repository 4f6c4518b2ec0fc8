# A type that is written into forward: the model cannot run in 16 bits, nor in 64.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width, width))

    def forward(self, x):
        start = torch.ones(x.shape[0], x.shape[1], dtype=torch.float32)
        return start @ self.weight + x


def get_inputs():
    return [torch.rand(16, 24)]


def get_init_inputs():
    return [24]
