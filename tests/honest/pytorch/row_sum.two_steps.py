# task: row_sum
# style: a view of blocks, summed in two steps
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        return x.view(rows, 32, columns // 32).sum(dim=2).sum(dim=1, keepdim=True)
