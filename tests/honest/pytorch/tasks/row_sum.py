import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(2048, 1024)]
