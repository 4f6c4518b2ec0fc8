# task: scale_shift
# style: one fused operator, the scalar folded into the scale
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = nn.Parameter(torch.rand(features))

    def forward(self, x, factor):
        return torch.addcmul(self.shift, x, self.scale, value=factor).relu_()
