"""What makes a call of a model repeat, where its inputs alone do not: the state that the model began with, and random
numbers that are seeded by the inputs of the call. Reference and candidate are treated alike (module_child.py).
"""

import contextlib
import ctypes
import random
import sys
import zlib

import torch

PLAIN = (type(None), bool, int, float, complex, str)
SEED_ELEMENTS = 64


def seed_all(seed):
    random.seed(seed)
    # Not torch.manual_seed, which asks each kind of device: 290 us, and this may stand before each call.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.default_generators[0].manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def host_generators():
    """States of the generators of Python and, where it is loaded, NumPy: they change with each number that is drawn."""
    numpy = sys.modules.get("numpy")
    return random.getstate(), None if numpy is None else str(numpy.random.get_state(legacy=False))


def seed_of(inputs):
    """Of some elements of each input, spread over it: both sides find the same number, and nobody knows it ahead."""
    seed = 0
    for value in inputs:
        flat = value.reshape(-1)
        some = flat[::max(1, flat.numel() // SEED_ELEMENTS)][:SEED_ELEMENTS].cpu().contiguous()
        seed = zlib.crc32(ctypes.string_at(some.data_ptr(), some.numel() * some.element_size()) if some.numel() else b"", seed)
    return seed


def tensors_in(value):
    """The tensors that a value is or has, where it has nothing else; None: it is of another kind."""
    parts = list(value) if type(value) in (tuple, list) else [value]
    # Layers of torch have lists of their parameters.
    if parts and all(isinstance(part, torch.Tensor) and not isinstance(part, torch.nn.Parameter) for part in parts):
        return parts
    return None


def is_state(value):
    return isinstance(value, PLAIN) or tensors_in(value) is not None


class State:
    """Buffers of a model, and tensors and plain values among the attributes of its modules, as they are now. Parameters
    and values of other kinds are left alone."""

    def __init__(self, model):
        self.owners = []  # (a dictionary of a module, {name: (value, copies of its tensors)})
        for module in model.modules():
            for values in (vars(module), module._buffers):
                kept = {name: (list(value) if type(value) is list else value, [one.detach().clone() for one in tensors_in(value) or ()])
                        for name, value in values.items() if is_state(value)}
                self.owners.append((values, kept))

    def restore(self):
        with torch.no_grad():
            for values, kept in self.owners:
                for name in [name for name, value in values.items() if name not in kept and is_state(value)]:
                    del values[name]
                for name, (value, copies) in kept.items():
                    for into, copy in zip(tensors_in(value) or (), copies):
                        with contextlib.suppress(RuntimeError):  # expanded, or made in inference mode: it stays as it is
                            into.detach().copy_(copy)
                    values[name] = list(value) if type(value) is list else value
