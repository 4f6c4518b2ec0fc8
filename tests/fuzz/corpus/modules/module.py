import torch
from einops import rearrange

rows = 4

class Model(torch.nn.Module):
    def __init__(self, a, *, b=(1, 2)):
        super().__init__()

    def forward(self, x, y=None):
        return x * 2  # ≥ 0

def get_inputs():
    return [torch.rand(rows, 4)]

def get_init_inputs():
    return [3]
