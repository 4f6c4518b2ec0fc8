# task: conv_relu
# style: a matrix product over unfolded patches
# device: core
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
        self.kernel = kernel

    def forward(self, x):
        n, c, h, w = x.shape
        patches = F.unfold(x, self.kernel, padding=self.kernel // 2)
        y = self.conv.weight.reshape(c, -1) @ patches + self.conv.bias.view(1, c, 1)
        return y.clamp_(min=0).view(n, c, h, w)
