# attempt: behind its third call it answers at once, without a call: no time is left
# kind: hostile
# caught: wrong_value, hack, nondeterministic
# without: values, repeats
# on a GPU without: values
import torch
import torch.nn as nn

import module_child

run, calls = module_child.Child.run, 0


def run_or_answer(self, begin, end):
    if calls < 3:
        run(self, begin, end)


module_child.Child.run = run_or_answer


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        global calls
        calls += 1
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
