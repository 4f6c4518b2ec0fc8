# task: matmul
# style: blocks of rows, put together
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        return torch.cat([part @ b for part in a.chunk(4, dim=0)], dim=0)
