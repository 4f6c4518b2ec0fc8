# task: relu
# style: a wait of its own, and a check of the result
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        torch.cuda.synchronize(x.device)
        assert y.is_cuda and float(y.min()) >= 0
        return y
