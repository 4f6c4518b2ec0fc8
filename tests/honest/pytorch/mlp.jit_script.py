# task: mlp
# style: a scripted function
# device: core
import torch
import torch.nn as nn


@torch.jit.script
def two_layers(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
    return torch.addmm(b2, torch.relu(torch.addmm(b1, x, w1.t())), w2.t())


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        return two_layers(x, self.first.weight, self.first.bias, self.second.weight, self.second.bias)
