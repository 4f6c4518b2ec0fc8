"""One list of candidates, evaluated by whichever eval_kernel_against_ref is imported: a line of JSON for each.

  compare_with_theirs.py shim     through the shim, which must be on
  compare_with_theirs.py theirs   by KernelBench's own code, on tensors of the CPU: torch.cuda is answered here, and each
                                  candidate runs in a fork, not sandboxed. The candidates are those of this file

tools/kernelbench_shim_check compares the lines. Left out of them are times, hardware and device, tracebacks, and the two
texts in which exact words are not reproduced.
"""

import contextlib
import json
import os
import sys
import time
import types

import torch

LINEAR = """
import torch
import torch.nn as nn

N = 16

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1

def get_inputs():
    return [torch.rand(N, 32)]

def get_init_inputs():
    return [32]
"""
CLASS_IDS = """
import torch

class Model(torch.nn.Module):
    def forward(self, scores, ids):
        return torch.nn.functional.cross_entropy(scores, ids)

def get_inputs():
    return [torch.rand(8, 4), torch.randint(0, 4, (8,))]

def get_init_inputs():
    return []
"""
WITH_NUMBER = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, factor):
        return torch.dropout(x * factor, 0.5, True)

def get_inputs():
    return [torch.rand(64, 64), 0.5]

def get_init_inputs():
    return []
"""


def new(text):
    return text.replace("class Model(", "class ModelNew(").replace("N = 16\n", "")


def linear(result, before="", in_init=""):
    text = new(LINEAR).replace("return torch.relu(self.linear(x)) + 1", result)
    return before + text.replace("        super().__init__()\n", "        super().__init__()\n" + in_init)


# name: (reference, candidate, further arguments)
CASES = {
    "right": (LINEAR, new(LINEAR), {}),
    "wrong": (LINEAR, linear("return torch.relu(self.linear(x)) + 1.1"), {}),
    "wrong in some trials": (LINEAR, linear("y = torch.relu(self.linear(x)) + 1; return y + 1 if x[0, 0] < 0.5 else y"), {}),
    "not a number": (LINEAR, linear("return torch.relu(self.linear(x)) * float('nan')"), {}),
    "zeros within the tolerance": (LINEAR.replace("+ 1", "* 1e-5"), linear("return torch.zeros(len(x), 32)"), {}),
    "another shape": (LINEAR, linear("return (torch.relu(self.linear(x)) + 1)[:3]"), {}),
    "another dtype": (LINEAR, linear("return (torch.relu(self.linear(x)) + 1).double()"), {}),
    "no tensor": (LINEAR, linear("return [1, 2]"), {}),
    "it raises": (LINEAR, linear("raise ValueError('x' * 300)"), {}),
    "its constructor raises RuntimeError": (LINEAR, linear("return x", in_init="        raise RuntimeError('no device')\n"), {}),
    "its constructor raises something else": (LINEAR, linear("return x", in_init="        raise KeyError('k')\n"), {}),
    "its constructor takes nothing": (LINEAR, new(LINEAR).replace("(self, features)", "(self)").replace("features", "32"), {}),
    "it has no forward": (LINEAR, "class ModelNew:\n    def __init__(self, features): pass\n", {}),
    "no Python": (LINEAR, "class ModelNew(:\n", {}),
    "no class": (LINEAR, "import torch\n", {}),
    "no class, as a module": (LINEAR, "import torch\n", {"backend": "triton"}),
    "as a module": (LINEAR, new(LINEAR), {"backend": "triton"}),
    "names of the reference, as a module": (LINEAR, linear("return x + N"), {"backend": "triton"}),
    "a module that is not installed": (LINEAR, "import no_such_module\n", {}),
    "a file that is not there": (LINEAR, "open('/nowhere/x')\n", {}),
    "a lock": (LINEAR, "raise RuntimeError('a lock is held')\n", {}),
    "it changes the size of the inputs": (LINEAR, "N = 1\n" + linear("return torch.relu(self.linear(x)) + 1 if len(x) == 1 else x"), {}),
    "it exchanges the comparison": (LINEAR, linear("return x", before="import torch\ntorch.allclose = lambda *x, **y: True\n"), {}),
    "it exchanges the reference": (LINEAR, linear("return x[:, :1]", before="Model.forward = lambda self, x: x[:, :1]\n"), {}),
    "it changes its inputs": (LINEAR, linear("y = torch.relu(self.linear(x)) + 1; x.zero_(); return y"), {}),
    "an import from the future": (LINEAR, "from __future__ import annotations\n" + new(LINEAR), {}),
    "an import from the future, with a folder": (LINEAR, "from __future__ import annotations\n" + new(LINEAR), {"build_dir": "/tmp/x"}),
    "with a folder": (LINEAR, new(LINEAR) + "print(BUILD_DIRECTORY)\n", {"build_dir": "/tmp/x"}),
    "class numbers become fractions": (CLASS_IDS, new(CLASS_IDS), {}),
    "random numbers in the call": (WITH_NUMBER, new(WITH_NUMBER), {}),
    "half precision": (LINEAR, new(LINEAR), {"precision": torch.float16}),
    "bf16, within the tolerance": (LINEAR, linear("return torch.relu(self.linear(x)) + 1.005"), {"precision": torch.bfloat16}),
    "tilelang in fp32": (LINEAR, new(LINEAR), {"backend": "tilelang"}),
    "another seed": (LINEAR, linear("return torch.relu(self.linear(x)) + x"), {"seed_num": 7}),
    "no trial": (LINEAR, linear("return x"), {"num_correct_trials": 0}),
    "timed": (LINEAR, new(LINEAR), {"measure_performance": True}),
    "wrong, timed": (LINEAR, linear("return x"), {"measure_performance": True}),
    "timed without the reference": (LINEAR, new(LINEAR), {"measure_performance": True, "check_for_excessive_speedup": False}),
    "it fails after the checks": (LINEAR, linear(
        "self.n = getattr(self, 'n', 0) + 1\n        if self.n > 4: raise ValueError('late')\n        return torch.relu(self.linear(x)) + 1"),
        {"measure_performance": True}),
    "by a method that is not there": (LINEAR, new(LINEAR), {"measure_performance": True, "timing_method": "sundial", "check_for_excessive_speedup": False}),
}
LEFT_OUT = ("hardware", "device", "quern", "runtime_error_traceback")
OWN_WORDS = ("compilation_error", "error_during_performance")


class HostEvent:
    """torch.cuda.Event by the clock of the host."""

    def __init__(self, enable_timing=False):
        self.at = 0

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, other):
        return 1000 * (other.at - self.at)


def stay_on_the_cpu(kind):
    """What is moved to a device stays where it is."""
    move = kind.to

    def to(self, *values, device=None, **named):
        return move(self, *values, **named) if values or named else self

    kind.to = to


def answer_for_cuda():
    stay_on_the_cpu(torch.Tensor)
    stay_on_the_cpu(torch.nn.Module)
    answers = {"is_available": lambda: True, "current_device": lambda: 0, "device_count": lambda: 1, "Event": HostEvent,
               "get_device_name": lambda device=None: "NVIDIA (none)", "set_device": lambda device: None,
               "synchronize": lambda device=None: None, "empty_cache": lambda: None, "reset_peak_memory_stats": lambda device=None: None,
               "manual_seed": lambda seed: None, "device": lambda device: contextlib.nullcontext()}
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)


def told(result):
    """What is compared."""
    if result is None:
        return None
    metadata = {name: value if isinstance(value, list) else str(value) for name, value in result.metadata.items() if name not in LEFT_OUT}
    for name in OWN_WORDS:
        if name in metadata:
            metadata[name] = "..."
    stats = [{name: value for name, value in one.items() if name == "num_trials"} for one in (result.runtime_stats, result.ref_runtime_stats)]
    return {"compiled": result.compiled, "correctness": result.correctness, "metadata": metadata, "stats": stats,
            "timed": [result.runtime > 0, result.ref_runtime > 0]}


def evaluated(evaluate, reference, candidate, more):
    # For languages that are imported KernelBench asks for the number of a GPU.
    device = 0 if more.get("backend") == "triton" else torch.device("cpu")
    arguments = {"num_correct_trials": 4, "num_perf_trials": 2, "device": device} | more
    # What KernelBench prints is not for the lines.
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return told(evaluate(reference, candidate, **arguments))
        except Exception as e:
            return {"raised": f"{type(e).__module__}.{type(e).__name__}"}


def in_a_fork(work):
    """The result of `work` in a child, whose changes of torch and of the reference go with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "w") as file:
            json.dump(work(), file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"died": True}


def main():
    theirs = sys.argv[1:] == ["theirs"]
    torch.set_num_threads(1)  # a process with a pool of threads cannot be forked
    if theirs:
        answer_for_cuda()
    from kernelbench import eval as kernelbench_eval
    evaluate = kernelbench_eval.eval_kernel_against_ref
    assert isinstance(evaluate, types.FunctionType) and ("quern" in evaluate.__code__.co_filename) != theirs, "the shim is not as it should be"
    for name, (reference, candidate, more) in CASES.items():
        def work():
            return evaluated(evaluate, reference, candidate, more)
        print(json.dumps([name, in_a_fork(work) if theirs else work()], sort_keys=True), flush=True)


main()
