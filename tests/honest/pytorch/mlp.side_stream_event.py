# task: mlp
# style: a side stream, joined by events
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, width)
        self.stream = None

    def forward(self, x):
        if self.stream is None:
            self.stream = torch.cuda.Stream()
            self.ready, self.done = torch.cuda.Event(), torch.cuda.Event()
        main = torch.cuda.current_stream()
        self.ready.record(main)
        self.stream.wait_event(self.ready)
        with torch.cuda.stream(self.stream):
            y = self.second(torch.relu_(self.first(x)))
            self.done.record(self.stream)
        main.wait_event(self.done)
        y.record_stream(main)
        return y
