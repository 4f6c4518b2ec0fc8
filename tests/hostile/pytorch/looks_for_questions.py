# attempt: between its calls it looks for the next question again and again, so that nothing has to wake it
# kind: hostile
# device: gpu
# size: small
# caught: ok
# timed: yes
# exempt: no layer takes from anybody what waking takes: that it gains nothing by it is its verdict
import ctypes
import os
import struct
import sys

import torch
import torch.nn as nn

import module_child

RUN, FLUSH, DELIVER = 5, 6, 14  # of a runner's commands
FIRST_TICKET = 9  # of the first question to call the model
AT_ONCE = 0x40  # MSG_DONTWAIT
ROOM = 70000
libc = ctypes.CDLL(None, use_errno=True)


def channel():
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["channel"]


def answer(fd, ticket):
    os.write(fd, struct.pack("<QIIIIQ480s", ticket, 0, 0, 0, 0, 0, b""))


def serve(child, fd):
    """Answers questions in the place of the process's own loop."""
    buffer = ctypes.create_string_buffer(ROOM)
    while True:
        got = libc.recv(fd, buffer, ROOM, AT_ONCE)
        if got < 0:
            continue
        if got == 0:
            os._exit(0)
        question = buffer.raw[:got]
        command, _, ticket = struct.unpack_from("<IIQ", question)
        if command == RUN:
            run_as_before(child, *struct.unpack_from("<qq", question, 16))
        elif command == FLUSH:
            child.memory.wake()
        elif command == DELIVER:
            child.deliver_again()
        else:
            os._exit(3)
        answer(fd, ticket)


run_as_before = module_child.Child.run


def run(child, begin, end):
    run_as_before(child, begin, end)
    fd = channel()
    answer(fd, FIRST_TICKET)
    serve(child, fd)


module_child.Child.run = run


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
