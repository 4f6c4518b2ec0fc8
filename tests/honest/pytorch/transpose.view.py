# task: transpose
# style: a view of the input as the result
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.t()
