# attempt: the table by which torch's Python part calls its copies is written over, so that nothing is delivered
# kind: hostile
# caught: wrong_value
# without: values, repeats
# on a GPU without: values
import torch
import torch.nn as nn

import ctypes
import mmap

COPY = b"_ZN2at4_ops5copy_4callERNS_6TensorERKS2_b"
RELA_BYTES, SYMBOL_BYTES = 24, 24
STRTAB, SYMTAB, RELA, RELA_SIZE, PLT_SIZE, JUMPS = 5, 6, 7, 8, 2, 23


class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("name", ctypes.c_char_p), ("dynamic", ctypes.POINTER(ctypes.c_uint64 * 2))]


def places_of(library, symbol):
    """Where a loaded library keeps the address of a function of another one."""
    part = Part.from_address(library._handle)
    table, at = {}, 0
    while part.dynamic[at][0]:
        table[part.dynamic[at][0]] = part.dynamic[at][1]
        at += 1
    for begin, size in ((table.get(JUMPS, 0), table.get(PLT_SIZE, 0)), (table.get(RELA, 0), table.get(RELA_SIZE, 0))):
        entries = (ctypes.c_uint64 * (size // 8)).from_address(begin) if size else ()
        for entry in range(0, len(entries), RELA_BYTES // 8):
            number = entries[entry + 1] >> 32
            name = ctypes.c_uint32.from_address(table[SYMTAB] + number * SYMBOL_BYTES).value
            if number and ctypes.string_at(table[STRTAB] + name) == symbol:
                yield part.base + entries[entry]


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool)
def copies_nothing(into, _, __):
    return into


patched = 0
for place in places_of(ctypes.CDLL("libtorch_python.so"), COPY):
    page = place & -mmap.PAGESIZE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 3) == 0
    ctypes.c_uint64.from_address(place).value = ctypes.cast(copies_nothing, ctypes.c_void_p).value
    patched += 1
assert patched


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.register_buffer("scale", torch.rand(features) + 1)
        self.shift = torch.rand(features)

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor + self.shift
