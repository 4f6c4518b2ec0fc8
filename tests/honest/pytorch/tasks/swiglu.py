import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return nn.functional.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.rand(1024, 256)]


def get_init_inputs():
    return [256, 512]
