# What a call leaves behind decides the next result.
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.hidden = torch.rand(8, width)

    def forward(self, x):
        self.hidden = torch.tanh(self.linear(torch.cat((x, self.hidden), dim=1)))
        return self.hidden


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return [16]
