"""Cases of tools/kernelbench_shim, over a package of ours that has KernelBench's names (kernelbench_standin).

  kernelbench_shim_cases.py     with the shim first in PYTHONPATH and the stand-in behind it, and QUERN_PROGRAM
No time is compared with another: where one decides, the candidate has put a clock of its own in the place of the real one.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REFERENCE = """
import torch

N = 16

class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1

def get_inputs():
    return [torch.rand(N, 32)]

def get_init_inputs():
    return [32]
"""
RIGHT = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)

    def forward(self, x):
        return self.linear(x).clamp_(min=0).add_(1)
"""
# Right on one row alone, of which the reference then draws its inputs.
REBINDS = "N = 1\n" + RIGHT.replace("return self", "if len(x) > 1: return x\n        return self")
# A second for each look at the clock of the reference, a millisecond for one of the candidate.
OWN_CLOCK = """
import time
now, step = [0.0], [1.0]

def look():
    now[0] += step[0]
    return now[0]

time.perf_counter = look
theirs = globals().get("Model")
if theirs is not None:
    called = theirs.forward
    def slow(self, x):
        step[0] = 1.0
        return called(self, x)
    theirs.forward = slow
""" + RIGHT.replace("return self", "step[0] = 0.001\n        return self")
DIES = "import os\n" + RIGHT.replace("return self", "os._exit(3)\n        return self")
RAISES = RIGHT.replace("super().__init__()", "raise KeyError('no luck')")
MEASURED = ("ok", "noisy", "unconfirmed")


def quern_of(result):
    return result.metadata["quern"]["verdict"]


def check_results(by_name):
    right = by_name.evaluate(REFERENCE, RIGHT, num_correct_trials=3)
    assert (right.compiled, right.correctness, quern_of(right)) == (True, True, "ok"), right
    assert right.metadata["correctness_trials"] == "(3 / 3)" and right.metadata["device"] == "cpu", right
    assert right.runtime == -1.0 and "by" not in right.metadata, right

    wrong = by_name.evaluate(REFERENCE, RIGHT.replace("add_(1)", "add_(1.1)"), num_correct_trials=2)
    assert (wrong.compiled, wrong.correctness, quern_of(wrong)) == (True, False, "wrong_value"), wrong
    assert wrong.metadata["correctness_issue"] == "Output mismatch" and len(wrong.metadata["max_difference"]) == 2, wrong
    assert wrong.metadata["max_difference"][0] == "0.100000", wrong

    malformed = by_name.evaluate(REFERENCE, "class ModelNew(:\n")
    assert (malformed.compiled, malformed.correctness, quern_of(malformed)) == (False, False, "compile_error"), malformed
    assert malformed.metadata["compilation_error_name"] == "SyntaxError", malformed
    # A text that begins with this import is no Python behind the line that a build folder adds.
    future = "from __future__ import annotations\n" + RIGHT
    assert by_name.evaluate(REFERENCE, future).correctness
    assert not by_name.evaluate(REFERENCE, future, build_dir="/tmp/x").compiled

    shape = by_name.evaluate(REFERENCE, RIGHT.replace(".add_(1)", ".add_(1)[:1]"))
    assert not shape.correctness and "shape mismatch" in shape.metadata["correctness_issue"], shape
    failing = by_name.evaluate(REFERENCE, RIGHT.replace("return self", "raise ValueError('late')\n        return self"))
    assert failing.compiled and failing.metadata["runtime_error"] == "late", failing
    assert failing.metadata["runtime_error_name"] == "builtins.ValueError" and "late" in failing.metadata["runtime_error_traceback"]


def check_defects(by_name):
    """What KernelBench calls correct or fast, and Quern does not."""
    rebinding = by_name.evaluate(REFERENCE, REBINDS, num_correct_trials=3)
    assert rebinding.correctness and quern_of(rebinding) == "wrong_value", rebinding
    # Control: with inputs of the size that the task says it is wrong there, too.
    assert not by_name.evaluate(REFERENCE, REBINDS.replace("N = 1\n", "")).correctness

    fast = by_name.evaluate(REFERENCE, OWN_CLOCK, measure_performance=True, num_perf_trials=3)
    assert (fast.runtime, fast.ref_runtime) == (1.0, 1000.0), fast
    assert fast.metadata["excessive_speedup"] is True and fast.correctness, fast
    assert fast.runtime_stats["num_trials"] == fast.ref_runtime_stats["num_trials"] == 3, fast
    assert quern_of(fast) in MEASURED, fast
    above = by_name.evaluate(REFERENCE, OWN_CLOCK, measure_performance=True, num_perf_trials=2, excessive_speedup_threshold=1000)
    assert "excessive_speedup" not in above.metadata, above


def check_ends(by_name, resident):
    process = resident._running[os.getpid()].process
    dead = by_name.evaluate(REFERENCE, DIES)
    assert not dead.compiled and "exit status 3" in dead.metadata["other_error"] and quern_of(dead) == "runtime_error", dead
    assert by_name.evaluate(REFERENCE, RIGHT).correctness
    assert resident._running[os.getpid()].process is process, "the evaluator did not outlive a candidate that died"

    try:
        by_name.evaluate(REFERENCE, RAISES)
        raise AssertionError("KernelBench lets this exception through")
    except KeyError as e:
        assert e.args == ("no luck",) or "no luck" in str(e), e
        assert e.quern["verdict"] == "runtime_error", e.quern
    assert by_name.evaluate(REFERENCE, "raise OSError('No such file or directory')\n") is None
    for_gpu = by_name.evaluate(REFERENCE, "import triton\n@triton.jit\ndef k(x): pass\nk[(1,)](0)\n" + RIGHT)
    assert for_gpu.metadata["other_error_name"] == "quern.unsupported" and quern_of(for_gpu) == "unsupported", for_gpu
    try:
        by_name.evaluate(REFERENCE, RIGHT, num_perf_trials=0)
        raise AssertionError("no times are asked for")
    except RuntimeError as e:
        assert "exact.perf_trials: 0 is not a whole number in 1 .. 10000" in str(e), e

    # Nothing of a candidate runs here: what it writes is not there.
    with tempfile.TemporaryDirectory() as folder:
        mark = os.path.join(folder, "mark")
        reaches = f"try:\n    open({mark!r}, 'w').close()\nexcept OSError:\n    pass\n" + RIGHT
        layers = by_name.evaluate(REFERENCE, reaches).metadata["quern"]["sandbox"]
        assert "mountns" not in layers or not os.path.exists(mark), layers
        exec(reaches, {})
        assert os.path.exists(mark), "the control: without a sandbox it is there"

    process.kill()
    process.wait()
    try:
        by_name.evaluate(REFERENCE, RIGHT)
        raise AssertionError("an answer from an evaluator that was killed")
    except resident.EvaluatorGone:
        pass
    assert by_name.evaluate(REFERENCE, RIGHT).correctness, "the next question starts another evaluator"


def check_around(by_name):
    stats = by_name.baseline("a reference", REFERENCE, num_trials=4, num_warmup=1)
    assert stats["num_trials"] == 4 and stats["mean"] > 0 and stats["device"] == "cpu", stats
    assert math.isnan(by_name.baseline("a reference", REFERENCE, use_torch_compile=True)["mean"])
    assert by_name.baseline("a reference", "class Model(:\n") is None

    import torch
    assert torch.cuda.is_available() and torch.cuda.device_count() >= 1 and torch.cuda.get_device_name(0)
    torch.cuda.set_device(torch.device("cuda:0"))
    torch.cuda.synchronize()

    assert sys.path[-1].endswith("kernelbench_shim/stubs"), "a package that is installed comes before its stub"
    stubs = ("import sys; sys.path.insert(0, sys.path.pop()); import modal, pydra\n"
             "app = modal.App('x'); image = modal.Image.from_registry('y').apt_install('z')\n"
             "@app.cls(image=image, retries=modal.Retries(max_retries=3))\n"
             "class Remote:\n    @modal.method()\n    def call(self): pass\n"
             "class Options(pydra.Config):\n    def __init__(self):\n        self.level, self.name, self.ids = pydra.REQUIRED, 'n', None\n"
             "@pydra.main(base=Options)\n"
             "def main(options): print(options.to_dict())\nmain()\n")
    filled = subprocess.run([sys.executable, "-c", stubs, "level=3", "ids=(1, 2)"], capture_output=True, text=True)
    assert filled.stdout.strip() == "{'level': 3, 'name': 'n', 'ids': (1, 2)}", filled
    for words, said in ((["ids=1"], "needed: level"), (["level=1", "nmae=x"], "no option nmae"), (["level"], "KEY=VALUE")):
        refused = subprocess.run([sys.executable, "-c", stubs, *words], capture_output=True, text=True)
        assert refused.returncode != 0 and said in refused.stderr, refused


def check_older_trees():
    """The package was called `src` once."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "src"
        package.mkdir()
        standin = next(Path(place) for place in sys.path if (Path(place) / "kernelbench/eval.py").exists())
        (package / "eval.py").write_text((standin / "kernelbench/eval.py").read_text())
        code = "from src.eval import eval_kernel_against_ref as e; print(e.__module__, 'quern' in e.__code__.co_filename)"
        old = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
        assert old.stdout.strip() == "src.eval True", old


def check_without_shim():
    """The control: without this folder in PYTHONPATH it is the stand-in that answers."""
    code = "import by_name; print(by_name.evaluate('', '').metadata['by'], by_name.baseline('', '')['by'])"
    places = os.environ["PYTHONPATH"].split(os.pathsep)
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=os.pathsep.join(place for place in places if "kernelbench_shim" not in place)))
    assert bare.stdout.strip() == "the stand-in the stand-in", bare


def main():
    begin = time.monotonic()
    import by_name
    from quern_kernelbench import resident
    check_without_shim()
    check_older_trees()
    for check in (check_results, check_defects, check_around):
        check(by_name)
        print(f"{check.__name__} passed, {time.monotonic() - begin:.1f} s", flush=True)
    check_ends(by_name, resident)
    print(f"all passed, {time.monotonic() - begin:.1f} s", flush=True)


main()
