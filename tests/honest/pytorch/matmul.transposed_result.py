# task: matmul
# style: a result that is not contiguous
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.mm(b.t(), a.t()).t()
