"""Contents of several calls by one get_inputs, in a tenth of the time (module_child.py)."""

import math

import torch

from module_repeats import seed_all
from module_tensors import DTYPES

# Bytes of inputs that are drawn at once. What torch takes for them it keeps for the next ones, as long as it is not much more
# (module_device.py). What it gives back the driver clears by the engines for copies, which windows wait for then.
PART = 256 << 20
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def plain_among(values):
    return [value for value in values if isinstance(value, torch.Tensor)]


def alike(value, wanted):
    """Whether two tensors of one shape hold the same, NaN in the same places among it. A tensor that is elsewhere does not."""
    try:
        bits = BITS.get(value.dtype.itemsize)
        if value.dtype != wanted.dtype:
            return False
        # By one kernel, which processes have loaded; -0 is like 0, though.
        if bits is not None and torch.equal(value.detach().view(bits), wanted.view(bits)):
            return True
        return bool(((value == wanted) | ((value != value) & (wanted != wanted))).all())
    except RuntimeError:
        return False


def dense_strides(shape):
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))


class Rows:
    """Of one module, whose child has its get_inputs, its places and its memory."""

    def __init__(self, child):
        self.child = child
        self.possible = None  # None: not tried

    def can_be_drawn(self, seed):
        """Whether torch's vmap can run get_inputs, which then draws by the generator of this memory's device alone. Others draw
        once for a row, and tell by the numbers of one call which come in the next. Those that the module keeps for itself show
        where equal seeds give other contents."""
        if self.possible is None:
            once, same, again = (plain_among(self.child.made_inputs(seed + i)) for i in (1, 1, 2))
            before = self.child.memory.state_of_others()
            self.child.drawn_inputs()
            alone = self.child.memory.state_of_others() == before and all(map(alike, once, same))
            try:
                seed_all(seed)
                rows = self.inputs(2) if alone else ()
                self.possible = alone and all(row.dtype == one.dtype and row[0].shape == one.shape and
                                              (alike(one, other) or not alike(row[0], row[1]))
                                              for row, one, other in zip(rows, once, again, strict=True))
            except Exception:  # of whatever kind: a text may do anything
                self.possible = False
        return self.possible

    def inputs(self, calls):
        """Each tensor of get_inputs, with an axis of calls before its own."""
        of_calls = torch.empty(calls, device=self.child.memory.device)
        return torch.vmap(lambda _: tuple(plain_among(self.child.drawn_inputs())), randomness="different")(of_calls)

    def draw(self, seeds, first):
        """To the places of calls `first` ..., one for each seed, by copies of each tensor of several calls. Each part has a seed of
        its own: a text that seeds generators itself would leave the parts behind the first alike in all rows."""
        at_once = max(1, PART // max((stride for _, stride, _, _ in self.child.places), default=PART))
        for begin in range(0, len(seeds), at_once):
            seed_all(seeds[begin])
            self.draw_part(first + begin, min(at_once, len(seeds) - begin))

    def draw_part(self, first, calls):
        of = self.child
        for i, values in enumerate(self.inputs(calls)):
            address, stride, number, shape = of.places[i]
            apart = stride // DTYPES[number].itemsize
            flat = of.memory.view(address + first * stride, number, (calls * apart,), bool(of.bools) and of.bools[i])
            flat.as_strided(values.shape, (apart, *dense_strides(shape))).copy_(values)
