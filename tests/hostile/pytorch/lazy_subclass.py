# attempt: a class of tensors that computes when it is looked at
# kind: hostile
# caught: wrong_dtype
# exempt: without the check of its type there is no memory to copy out, and nothing to compare
import torch
import torch.nn as nn

class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [one.compute() if isinstance(one, Lazy) and hasattr(one, "compute") else one for one in args]
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        y = torch.empty_like(x).as_subclass(Lazy)
        y.compute = lambda: torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y
