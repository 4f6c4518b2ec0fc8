# task: mlp
# style: torch.compile with its defaults
# device: gpu
# verdict: unsupported
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self.fast = torch.compile(self.compute)

    def compute(self, x):
        return self.second(torch.relu(self.first(x)))

    def forward(self, x):
        return self.fast(x)
