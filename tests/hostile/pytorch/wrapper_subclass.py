# attempt: a wrapper without memory that computes when it is dispatched
# kind: hostile
# caught: wrong_dtype, runtime_error
# exempt: without the check of its type there is no memory to copy out, and nothing to compare
import torch
import torch.nn as nn

class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, like, compute):
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device)
        made.compute = compute
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*[one.compute() if isinstance(one, Wrapper) else one for one in args], **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return Wrapper(x, lambda: torch.relu(self.linear(x)) * self.scale * factor + self.shift)
