# task: row_sum
# style: einsum
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.einsum("ij->i", x).unsqueeze(1)
