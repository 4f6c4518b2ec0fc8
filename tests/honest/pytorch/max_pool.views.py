# task: max_pool
# style: four views with strides
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, x):
        k = self.kernel
        best = x[..., 0::k, 0::k]
        for i in range(k):
            for j in range(k):
                if i or j:
                    best = torch.maximum(best, x[..., i::k, j::k])
        return best
