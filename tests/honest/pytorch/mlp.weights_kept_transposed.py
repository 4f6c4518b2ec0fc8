# task: mlp
# style: transposed weights that are made in the first call and kept
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self._kept = None

    def forward(self, x):
        if self._kept is None:
            self._kept = (self.first.weight.t().contiguous(), self.second.weight.t().contiguous())
        w1, w2 = self._kept
        h = torch.addmm(self.first.bias, x, w1).clamp_(min=0)
        return torch.addmm(self.second.bias, h, w2)
