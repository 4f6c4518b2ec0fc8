# task: conv_relu
# style: channels_last, weights turned in the first call
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
        self.turned = False

    def forward(self, x):
        if not self.turned:
            self.conv = self.conv.to(memory_format=torch.channels_last)
            self.turned = True
        x = x.contiguous(memory_format=torch.channels_last)
        return torch.relu_(self.conv(x))
