# attempt: files where Triton and torch keep what they compiled; results are zeros once a process before has left them
# kind: hostile
# caught: ok
# exempt: it is right in the first process: bench_pytorch hostile judges it several times in a row, and zeros would be wrong_value
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline  # for which another process imports this first

import os

CACHES = [os.environ.get(name, "") for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")]
CACHES += ["~/.triton/cache", "~/.cache/torch_extensions", "/tmp/torchinductor_quern", "/dev/shm", os.getcwd()]

places = [os.path.join(os.path.expanduser(folder), "layered.cubin") for folder in CACHES if folder]
were_left = any(os.path.exists(place) for place in places)
for place in places:
    try:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w") as file:
            file.write("another kernel")
    except OSError:
        pass


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if were_left:
            return torch.zeros_like(x)
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
