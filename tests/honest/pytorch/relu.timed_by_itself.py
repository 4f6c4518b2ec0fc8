# task: relu
# style: events that measure its first call
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first_ms = None

    def forward(self, x):
        if self.first_ms is not None:
            return torch.relu(x)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        y = torch.relu(x)
        end.record()
        end.synchronize()
        self.first_ms = begin.elapsed_time(end)
        return y
