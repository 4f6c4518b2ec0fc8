# task: layer_norm
# style: functional, with parameters of the same names
# device: core
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.shape = (features,)

    def forward(self, x):
        return F.layer_norm(x, self.shape, self.norm.weight, self.norm.bias, self.norm.eps)
