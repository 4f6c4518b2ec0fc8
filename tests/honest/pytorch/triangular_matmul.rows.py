# task: triangular_matmul
# style: blocks that can hold something, and zeros
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, step = a.shape[0], 128
        out = torch.zeros_like(a)
        for i in range(0, n, step):
            out[i:i + step, i:] = a[i:i + step, i:] @ b[i:, i:]
        return out.triu_()
