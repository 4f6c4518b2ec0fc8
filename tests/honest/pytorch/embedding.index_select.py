# task: embedding
# style: index_select on a flat list
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width)

    def forward(self, words):
        flat = torch.index_select(self.table.weight, 0, words.reshape(-1))
        return flat.view(*words.shape, -1)
