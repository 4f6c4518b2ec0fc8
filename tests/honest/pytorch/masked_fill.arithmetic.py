# task: masked_fill
# style: a bool that becomes a factor
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x, mask):
        factor = mask.to(x.dtype).mul_(0.75).add_(0.25)
        return x * factor
