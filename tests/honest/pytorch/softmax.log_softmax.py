# task: softmax
# style: through the logarithm
# device: core
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def forward(self, x):
        return F.log_softmax(x, dim=-1).exp()
