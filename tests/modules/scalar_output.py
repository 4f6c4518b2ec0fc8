# A result without dimensions.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, predictions, targets):
        return ((predictions - targets) ** 2).mean()


def get_inputs():
    return [torch.rand(64, 32), torch.rand(64, 32)]


def get_init_inputs():
    return []
