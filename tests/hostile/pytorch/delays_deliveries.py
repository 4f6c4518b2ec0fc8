# attempt: it leaves the device at work behind each delivery, so that those of the reference take longer and more is taken off
# kind: hostile
# device: gpu
# size: small
# caught: ok, noisy
# exempt: what it leaves behind its deliveries is no part of any layer: deliveries of the reference behind it do not count
import gc

import torch
import torch.nn as nn

import module_child


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)
        self.child = None

    def forward(self, x, factor):
        if self.child is None:
            self.child = next(one for one in gc.get_objects() if isinstance(one, module_child.Child))
            self.side = torch.cuda.Stream()
            self.child.memory.wait = torch.cuda.current_stream().synchronize
            again = self.child.deliver_again

            def deliver_again():
                again()
                with torch.cuda.stream(self.side):
                    torch.cuda._sleep(600000)  # clocks: a third of a millisecond
            self.child.deliver_again = deliver_again
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
