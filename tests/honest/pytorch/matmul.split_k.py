# task: matmul
# style: the inner dimension in two parts, added in place
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        half = a.shape[1] // 2
        out = a[:, :half] @ b[:half]
        return out.addmm_(a[:, half:], b[half:])
