# task: layer_norm
# style: mean and variance by hand, parameters of other names
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.beta, (x - mean) * torch.rsqrt(var + self.eps), self.gamma)
