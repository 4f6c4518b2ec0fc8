# task: row_extremes
# style: two results, as a list
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        low, high = torch.aminmax(x, dim=1)
        return [high, low]
