"""Arguments of KernelBench's functions as terms of protocol kernelbench_exact/1, and its ends as exceptions."""

import builtins
import os

PROTOCOL = "kernelbench_exact/1"
PRECISIONS = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16", "fp32": "fp32", "fp16": "fp16", "bf16": "bf16"}


def precision_of(given):
    """`given`: a dtype of torch, or its short name."""
    try:
        return PRECISIONS[str(given)]
    except KeyError:
        raise ValueError(f"precision {given}: float32, float16 or bfloat16 is needed") from None


def limit_s():
    return float(os.environ.get("QUERN_SHIM_LIMIT_S", "300"))


def exception_of(end, verdict):
    """What KernelBench's function would have raised. A name that Python itself does not have becomes RuntimeError."""
    module, _, name = end["name"].rpartition(".")
    kind = getattr(builtins, name, None) if module == "builtins" else None
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = RuntimeError
    try:
        made = kind(end["text"])
    except TypeError:  # one that takes more than a text
        made = RuntimeError(f"{end['name']}: {end['text']}")
    made.quern = verdict
    return made
