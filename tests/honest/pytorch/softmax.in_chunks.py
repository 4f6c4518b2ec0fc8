# task: softmax
# style: rows in chunks, written into slices of the result
# device: core
import torch
import torch.nn as nn

ROWS = 512


class ModelNew(nn.Module):
    def forward(self, x):
        result = torch.empty_like(x)
        for begin in range(0, x.shape[0], ROWS):
            part = x[begin:begin + ROWS]
            torch.softmax(part, dim=1, out=result[begin:begin + ROWS])
        return result
