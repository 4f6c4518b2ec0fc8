# task: mlp
# style: nn.Sequential, so that parameters have other names, drawn in the same order
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, width))

    def forward(self, x):
        return self.layers(x)
