# task: attention
# style: a loop over batches, into one result
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        out = torch.empty_like(q)
        scale = q.shape[-1] ** -0.5
        for i in range(q.shape[0]):
            weights = torch.softmax(torch.bmm(q[i] * scale, k[i].transpose(1, 2)), dim=-1)
            torch.bmm(weights, v[i], out=out[i])
        return out
