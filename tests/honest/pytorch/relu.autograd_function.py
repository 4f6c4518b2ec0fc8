# task: relu
# style: torch.autograd.Function
# device: core
import torch
import torch.nn as nn


class FastReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=0.0)

    @staticmethod
    def backward(ctx, grad):
        raise NotImplementedError


class ModelNew(nn.Module):
    def forward(self, x):
        return FastReLU.apply(x)
