# task: attention
# style: a stream for each batch, of the pool, waited for by the host
# device: gpu
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = None

    def forward(self, q, k, v):
        if self.pool is None:
            self.pool = [torch.cuda.Stream(priority=-1) for _ in range(q.shape[0])]
        out = torch.empty_like(q)
        main = torch.cuda.current_stream()
        for i, stream in enumerate(self.pool):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                weights = torch.softmax(q[i] @ k[i].transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1)
                torch.bmm(weights, v[i], out=out[i])
        for stream in self.pool:
            stream.synchronize()
        return out
