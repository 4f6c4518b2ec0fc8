# task: cosine
# style: sums of products, one square root
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        dot = (a * b).sum(dim=1)
        return dot / torch.sqrt(a.square().sum(dim=1) * b.square().sum(dim=1)).clamp_min_(1e-16)
