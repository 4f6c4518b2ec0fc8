# task: mlp
# style: a CUDA graph, inputs copied in, the result copied out
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self.graph = None

    def compute(self, x):
        return self.second(torch.relu(self.first(x)))

    def capture(self, x):
        self.static_in = x.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.compute(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.static_out = self.compute(self.static_in)
        self.graph = graph

    def forward(self, x):
        if self.graph is None or self.static_in.shape != x.shape:
            self.capture(x)
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()
