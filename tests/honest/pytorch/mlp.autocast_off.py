# task: mlp
# style: gradients asked for and given up, autocast that is off
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)

    def forward(self, x):
        with torch.enable_grad(), torch.autocast(x.device.type, enabled=False):
            y = self.second(torch.relu(self.first(x)))
        return y.detach()
