# A number of Python among the inputs.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, factor):
        return x * factor


def get_inputs():
    return [torch.rand(24, 32), 3.14]


def get_init_inputs():
    return []
