# attempt: a graph that does not copy its inputs
# kind: hostile
# device: gpu
# caught: wrong_value
# on a GPU without: values
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        if not hasattr(self, "graph"):
            static = x.clone()
            self.linear(static)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = torch.relu(self.linear(static)) * self.scale * factor + self.shift
            self.keep = static
        self.graph.replay()
        return self.out
