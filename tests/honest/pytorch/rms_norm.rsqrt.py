# task: rms_norm
# style: rsqrt and one broadcast
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        inverse = torch.rsqrt(x.square().mean(dim=1, keepdim=True).add_(self.eps))
        return x.mul(inverse).mul_(self.weight)
