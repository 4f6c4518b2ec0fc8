"""Tensors as the evaluator names them, in a forked child: types, views of its memory, what a model holds and returns."""

import ast
import ctypes

import torch

DONE, FAILED, FAULT, WRONG_SHAPE, WRONG_DTYPE, NO_MEMORY, NOT_HERE = range(7)  # quern_python_outcome of python_part.h
# Numbered as quern::env::dtype; a bool is a byte of its own.
NAMES = ("f32", "f64", "i32", "i64", "u8", "bf16", "f16")
DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bfloat16, torch.float16)
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class Unusable(Exception):
    """A module that this lane cannot take, or a question that cannot be answered as things stand."""


class WrongResult(Exception):
    def __init__(self, outcome, text):
        super().__init__(text)
        self.outcome = outcome


def element_type(tensor):
    """Number of its type among NAMES, and whether its bytes are bools."""
    if tensor.dtype == torch.bool:
        return NAMES.index("u8"), True
    if tensor.dtype not in DTYPES:
        raise Unusable(f"a tensor of {tensor.dtype}: this lane has float32, float64, float16, bfloat16, int32, int64, uint8 and bool")
    return DTYPES.index(tensor.dtype), False


def view(address, number, shape, as_bool=False):
    """A tensor over memory of the evaluator; nothing is copied."""
    dtype, elements = DTYPES[number], 1
    for n in shape:
        elements *= n
    size = elements * dtype.itemsize
    if size == 0:
        return torch.empty(shape, dtype=torch.bool if as_bool else dtype)
    memory = (ctypes.c_char * size).from_address(address)
    tensor = torch.frombuffer(memory, dtype=dtype).reshape(shape)
    return tensor.view(torch.bool) if as_bool else tensor


def plain_tensors(model):
    """Tensors that are neither parameters nor buffers, by their path: state_dict leaves them out."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                yield (f"{prefix}.{name}" if prefix else name), value


def tensors_of(model):
    """All that a model holds, in one order: (kind, name, tensor)."""
    yield from (("parameter", name, value.detach()) for name, value in model.named_parameters(remove_duplicate=False))
    yield from (("buffer", name, value) for name, value in model.named_buffers(remove_duplicate=False))
    yield from (("attribute", name, value.detach()) for name, value in plain_tensors(model))


def flattened(result):
    """The tensors that a model returned."""
    parts = result if isinstance(result, (tuple, list)) else (result,)
    for part in parts:
        if not isinstance(part, torch.Tensor):
            raise WrongResult(WRONG_SHAPE, f"the result has a {type(part).__name__} where a tensor is asked for")
    return parts


def same(one, other):
    """Whether two calls gave equal tensors."""
    return all(torch.equal(a, b) or torch.allclose(a, b, equal_nan=True, rtol=0, atol=0) for a, b in zip(one, other))


def literal(value):
    """Text of a value that the other side reads by ast.literal_eval."""
    text = repr(value)
    try:
        again = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        again = None
    if again is None and value is not None or repr(again) != text:
        raise Unusable(f"{text[:80]}: only numbers, texts, None, lists, tuples and dictionaries are passed to the other process")
    return text
