# task: relu
# style: inference mode, chosen by a decorator
# device: core
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    @torch.inference_mode()
    def forward(self, x):
        return nn.functional.relu(x)
