# task: rms_norm
# style: f64 inside, f32 outside
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(features) + 0.5)

    def forward(self, x):
        wide = x.double()
        norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True) / wide.shape[1] ** 0.5
        return (wide / torch.sqrt(norm * norm + self.eps) * self.weight.double()).float()
