# task: softmax
# style: torch.vmap over a function of one row
# device: core
import torch
import torch.nn as nn


def row(x):
    e = torch.exp(x - x.max())
    return e / e.sum()


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = torch.vmap(row)

    def forward(self, x):
        return self.rows(x)
