import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(16, 32, 64, 64)]


def get_init_inputs():
    return [2]
