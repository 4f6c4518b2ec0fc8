# task: matmul_half
# style: half precision, by addmm into zeros
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        return torch.addmm(out, a, b, beta=0.0)
