# attempt: behind its answers it looks for questions itself, and computes while the reference is called on the same core
# kind: hostile
# device: gpu
# size: small
# caught: ok
# timed: yes
# on a GPU without: still
import ctypes
import os
import struct
import sys
import time

import torch
import torch.nn as nn

import module_child

RUN, FLUSH, DELIVER = 5, 6, 14  # of a runner's commands
FIRST_TICKET = 9  # of the first question to call the model
ROOM = 70000
libc = ctypes.CDLL(None, use_errno=True)


class Poll(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]


def channel():
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["channel"]


class Loop:
    """Answers questions in the place of the process's own loop."""

    def __init__(self, child, fd):
        self.child, self.fd, self.buffer = child, fd, ctypes.create_string_buffer(ROOM)
        self.poll, self.at_once, self.soon = Poll(fd, 1, 0), Time(0, 1000), Time(0, 600_000)

    def answer(self, ticket):
        os.write(self.fd, struct.pack("<QIIIIQ480s", ticket, 0, 0, 0, 0, 0, b""))

    def asked(self, within):
        return libc.ppoll(ctypes.byref(self.poll), 1, ctypes.byref(within), None) != 0

    def serve(self):
        while True:
            # By then the evaluator has copied the results of a window: what comes is not this module's.
            if not self.asked(self.soon):
                while not self.asked(self.at_once):
                    end = time.perf_counter_ns() + 200_000
                    while time.perf_counter_ns() < end:
                        pass
            got = libc.recv(self.fd, self.buffer, ROOM, 0)
            if got <= 0:
                os._exit(0)
            question = self.buffer.raw[:got]
            command, _, ticket = struct.unpack_from("<IIQ", question)
            if command == RUN:
                run_as_before(self.child, *struct.unpack_from("<qq", question, 16))
            elif command == FLUSH:
                self.child.memory.wake()
            elif command == DELIVER:
                self.child.deliver_again()
            else:
                os._exit(3)
            self.answer(ticket)


run_as_before = module_child.Child.run


def run(child, begin, end):
    run_as_before(child, begin, end)
    loop = Loop(child, channel())
    loop.answer(FIRST_TICKET)
    loop.serve()


module_child.Child.run = run


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
