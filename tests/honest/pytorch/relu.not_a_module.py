# task: relu
# style: a plain class that can be called
# device: core
import torch


class ModelNew:
    def __call__(self, x):
        return 0.5 * (x + x.abs())
