# task: softmax
# style: a registered buffer, made in the first call, that every call returns
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("result", None, persistent=False)

    def forward(self, x):
        if self.result is None or self.result.shape != x.shape or self.result.device != x.device:
            self.result = torch.empty_like(x)
        torch.softmax(x, dim=1, out=self.result)
        return self.result
