# task: softmax
# style: halves on two streams, both waited for
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.streams = [torch.cuda.Stream(), torch.cuda.Stream()] if torch.cuda.is_available() else []

    def forward(self, x):
        if not self.streams:
            self.streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        out = torch.empty_like(x)
        main = torch.cuda.current_stream()
        for stream, source, target in zip(self.streams, x.chunk(2), out.chunk(2)):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                torch.softmax(source, dim=1, out=target)
        for stream in self.streams:
            main.wait_stream(stream)
        return out
