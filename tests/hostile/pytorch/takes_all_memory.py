# attempt: all memory of the device
# kind: hostile
# device: gpu
# caught: oom, runtime_error, ok
# exempt: that the next candidate is ok is judged in a case of its own: a process that ends gives its memory back
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        if not hasattr(self, "all"):
            free, _ = torch.cuda.mem_get_info()
            self.all = torch.empty(free - (1 << 30), dtype=torch.uint8, device=x.device)
        return y
