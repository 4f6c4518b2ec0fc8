# task: swiglu
# style: two weights put together in the first call
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.both = None

    def forward(self, x):
        if self.both is None:
            self.both = torch.cat([self.gate.weight, self.up.weight], dim=0).t().contiguous()
        gate, up = (x @ self.both).chunk(2, dim=1)
        return gate * torch.sigmoid(gate) * up
