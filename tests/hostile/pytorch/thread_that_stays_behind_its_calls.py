# attempt: a thread that stays behind its calls
# kind: reaching
# caught: runtime_error
# without: thread_count
import torch
import torch.nn as nn

import os, socket, subprocess, threading, time, ctypes, glob

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if not hasattr(self, 'other'):
            self.other = threading.Thread(target=time.sleep, args=(600,), daemon=True)
            self.other.start()
        y = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return y
