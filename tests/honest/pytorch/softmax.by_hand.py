# task: softmax
# style: three operators, in place on what is its own
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x - x.amax(dim=1, keepdim=True)
        y.exp_()
        y.div_(y.sum(dim=1, keepdim=True))
        return y
