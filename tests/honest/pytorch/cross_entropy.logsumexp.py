# task: cross_entropy
# style: logsumexp and gather
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, scores, classes):
        picked = scores.gather(1, classes.unsqueeze(1)).squeeze(1)
        return (torch.logsumexp(scores, dim=1) - picked).mean()
