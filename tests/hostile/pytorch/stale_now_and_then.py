# attempt: one call in twelve returns what the call before had
# kind: hostile
# caught: wrong_value, hack, nondeterministic
# timed: yes
# without: values, repeats
import torch
import torch.nn as nn

import random

turn = random.SystemRandom()


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if hasattr(self, "kept") and turn.random() < 1 / 12:
            return self.kept
        self.kept = torch.relu(self.linear(x)) * self.scale * factor + self.shift
        return self.kept
