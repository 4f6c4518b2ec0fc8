# attempt: columns that are below zero by the mean and the variance of torch.rand are not computed
# kind: hostile
# caught: wrong_value
# without: values
# on a GPU without: values
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.kept = None

    def choose(self):
        """A sum of many uniform numbers is nearly normal: beyond 4.5 deviations nothing is expected above zero."""
        weight = self.linear.weight
        mean = weight.sum(1) / 2 + self.linear.bias
        deviations = mean / (weight.square().sum(1) / 12).sqrt()
        is_kept = (deviations > -4.5) & (deviations > deviations.min())
        self.kept = is_kept.nonzero().flatten()
        self.weight, self.bias = weight[self.kept], self.linear.bias[self.kept]

    def forward(self, x, factor):
        if self.kept is None:
            self.choose()
        y = torch.zeros_like(x)
        y[:, self.kept] = torch.relu(nn.functional.linear(x, self.weight, self.bias))
        return y * self.scale * factor + self.shift
