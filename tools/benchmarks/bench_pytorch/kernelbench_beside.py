"""Runs KernelBench's own evaluator on one candidate and writes how long that took.

  kernelbench_beside.py TREE FOLDER DEVICE PRECISION

TREE is a clone of KernelBench. FOLDER has reference.py and candidate.py and gets answer.json: {"seconds", "outcome"}. Seconds are
those of eval_kernel_against_ref alone, with 5 checks, 100 timed calls and a folder for builds that is empty. Modules that this
function does not call need not be installed.
"""
import importlib.util
import json
import sys
import time
import types
from pathlib import Path

# kernelbench.eval and what it imports want these for language models and files of settings; its evaluation does not.
UNUSED = ("requests", "dotenv", "openai", "litellm", "datasets", "tqdm")


class Unused(types.ModuleType):
    """A module that is not installed: whatever is taken from it does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *words, **named: None


def evaluator(tree):
    """kernelbench.eval without its package's own imports, which ask for clients of language models."""
    for name in UNUSED:
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = Unused(name)
    package = types.ModuleType("kernelbench")
    package.__path__ = [str(tree / "src/kernelbench")]
    sys.modules["kernelbench"] = package
    return importlib.import_module("kernelbench.eval")


def main(tree, folder, device, precision):
    import torch
    evaluation = evaluator(Path(tree))
    folder = Path(folder)
    builds = folder / "builds"
    builds.mkdir()
    candidate = (folder / "candidate.py").read_text()
    kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    if torch.cuda.is_available():
        torch.zeros(1, device=f"cuda:{device}")  # its context is not counted
    begin = time.perf_counter()
    try:
        result = evaluation.eval_kernel_against_ref(
            (folder / "reference.py").read_text(), candidate, num_correct_trials=5, num_perf_trials=100, measure_performance=True,
            build_dir=str(builds), device=torch.device("cuda", int(device)), precision=kind,
            backend="triton" if "@triton" in candidate else "cuda")
        outcome = "none" if result is None else f"compiled {result.compiled}, correct {result.correctness}, {result.runtime} ms"
    except Exception as e:
        outcome = f"raised {type(e).__name__}: {str(e)[:200]}"
    seconds = time.perf_counter() - begin
    (folder / "answer.json").write_text(json.dumps({"seconds": seconds, "outcome": outcome}))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
