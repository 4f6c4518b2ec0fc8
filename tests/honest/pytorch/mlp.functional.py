# task: mlp
# style: functional rewriting, in place between the layers
# device: core
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        h = F.linear(x, self.first.weight, self.first.bias)
        F.relu_(h)
        return torch.addmm(self.second.bias, h, self.second.weight.t())
