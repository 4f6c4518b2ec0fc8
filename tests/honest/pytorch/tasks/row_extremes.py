import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.amax(dim=1), x.amin(dim=1)


def get_inputs():
    return [torch.rand(4096, 512) - 0.5]
