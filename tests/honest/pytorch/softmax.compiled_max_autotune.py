# task: softmax
# style: torch.compile as a decorator, with a mode
# device: gpu
# verdict: unsupported
import torch
import torch.nn as nn


@torch.compile(mode="max-autotune-no-cudagraphs", fullgraph=True)
def softmax(x):
    e = torch.exp(x - x.amax(dim=1, keepdim=True))
    return e / e.sum(dim=1, keepdim=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
