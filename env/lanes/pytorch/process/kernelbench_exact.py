"""The child's side of protocol kernelbench_exact/1: KernelBench's own evaluation, defects included, on tensors of the CPU or,
in a process with a GPU, of that (kernelbench_clocks.py).

Reference and candidate share this process, one namespace, one clock and one set of inputs, as they do in KernelBench. So
whatever this file answers may be the candidate's doing. The answer is reported beside a verdict and is never part of one.
It runs in a forked child of zygote.py, behind the sandbox, and the process ends with the answer.

run(asked, device) takes a question `kernelbench_exact` (kernelbench_exact.hpp) and returns one of these. With `reference_only` it
does what KernelBench does for its baselines: the candidate's text is not read, and the result has reference_ms alone.
  {"end": "result", "compiled", "correctness", "metadata", "candidate_ms", "reference_ms"}: times of single calls
  {"end": "retry"}: KernelBench returns None for this exception
  {"end": "raised", "name", "text"}: an exception that leaves its function
Statistics and the flag for large speed-ups are made of the times on the evaluator's side.
"""

import importlib.util
import math
import traceback

import torch

from kernelbench_clocks import METHODS, clocks_of
from module_tensors import PRECISIONS

TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}
# Languages whose candidates KernelBench imports as a module; all others run in the reference's namespace.
IMPORTED = ("triton", "tilelang", "cute")
MOST_TEXT = 16_000


class Retry(Exception):
    """An exception at the candidate's build for which KernelBench asks its caller to try again."""


def name_of(problem):
    return f"{type(problem).__module__}.{type(problem).__name__}"


def text_of(problem):
    return str(problem)[:MOST_TEXT]


def load_reference(text, context):
    """Model, get_init_inputs and get_inputs of a text that runs in `context`. What a text lacks is None."""
    try:
        exec(text, context)
    except Exception as e:
        raise TypeError(f"the reference cannot be executed: {text_of(e)}") from e
    return context.get("Model"), context.get("get_init_inputs"), context.get("get_inputs")


def load_candidate(asked, context):
    """ModelNew; None where the text is no Python or does not define it."""
    if asked["backend"] in IMPORTED:
        spec = importlib.util.spec_from_file_location("temp_module", asked["candidate"])
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.ModelNew
    text = read(asked["candidate"])
    if asked["build_dir"]:
        # A text that must begin with an import from __future__ is no Python behind this line.
        context["BUILD_DIRECTORY"] = asked["build_dir"]
        text = f"import os; os.environ['TORCH_EXTENSIONS_DIR'] = {asked['build_dir']!r}\n{text}"
    try:
        exec(text, context)
    except SyntaxError:
        return None
    return context.get("ModelNew")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def times_of(host, model, inputs, asked):
    """Milliseconds of calls on the same inputs."""
    method = asked["timing_method"]
    if method not in METHODS:
        raise ValueError(f"timing method {method} is not there for {host.where}: {', '.join(METHODS[:-1])} or {METHODS[-1]}")
    found = getattr(host, method)(lambda: model(*inputs), asked["warm_ups"], asked["discarded"], asked["perf_trials"])
    if not all(math.isfinite(one) for one in found):
        raise ValueError("a time is not finite")
    return found


class Evaluation:
    """One candidate beside its reference."""

    def __init__(self, asked, device):
        self.asked, self.host = asked, clocks_of(device)
        self.precision, self.seed = PRECISIONS[asked["precision"]], asked["seed"]
        self.reference, self.candidate, self.get_inputs = None, None, None
        self.answer = {"end": "result", "compiled": False, "correctness": False, "metadata": {}, "candidate_ms": [], "reference_ms": []}

    @property
    def metadata(self):
        return self.answer["metadata"]

    def taken(self, value):
        """Every tensor, whole numbers and bools, too. What is drawn is drawn on the CPU, and brought to the device then."""
        return value.to(device=self.host.device, dtype=self.precision) if isinstance(value, torch.Tensor) else value

    def inputs(self, seed):
        torch.manual_seed(seed)
        return [self.taken(value) for value in self.get_inputs()]

    def run(self):
        if self.asked["reference_only"]:
            self.time_reference_alone()
            return self.answer
        if not self.load():
            return self.answer
        try:
            self.answer["correctness"] = self.check()
        except Exception as e:
            self.metadata.update(runtime_error=text_of(e), runtime_error_name=name_of(e))
        if self.asked["measure"]:
            self.measure()
        return self.answer

    def load(self):
        """Makes both models. False: the answer is complete."""
        context = {}
        model, get_init_inputs, self.get_inputs = load_reference(read(self.asked["reference"]), context)
        torch.manual_seed(self.seed)
        init = [self.taken(value) for value in get_init_inputs()]
        with torch.no_grad():
            torch.manual_seed(self.seed)
            self.reference = model(*init)
            assert hasattr(self.reference, "forward")
        try:
            made = load_candidate(self.asked, context)
        except Exception as e:
            if "lock" in str(e) or "No such file or directory" in str(e):
                raise Retry from e
            self.metadata.update(compilation_error_name=name_of(e), compilation_error=text_of(e))
            return False
        if made is None:
            self.metadata.update(compilation_error_name="SyntaxError", compilation_error="no Python, or no ModelNew in it")
            return False
        self.answer["compiled"] = True
        try:
            with torch.no_grad():
                torch.manual_seed(self.seed)
                self.candidate = made(*init)
                assert hasattr(self.candidate, "forward")
                self.reference = self.reference.to(device=self.host.device, dtype=self.precision)
                self.candidate = self.candidate.to(device=self.host.device, dtype=self.precision)
            self.host.wait()
        except RuntimeError as e:
            self.metadata.update(runtime_error=text_of(e), runtime_error_name=name_of(e))
            return False
        return True

    def check(self):
        """Whether all trials passed. The seeds follow from the first one, so anybody knows them."""
        trials, passed = self.asked["correct_trials"], 0
        torch.manual_seed(self.seed)
        seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(trials)]
        with torch.no_grad():
            for seed in seeds:
                inputs = self.inputs(seed)
                torch.manual_seed(seed)
                expected = self.reference(*inputs)
                self.host.wait()
                try:
                    got = self.candidate(*inputs)  # the same objects, which either side may have changed
                    self.host.wait()
                    if expected.shape != got.shape:
                        self.metadata.update(correctness_issue=f"Output shape mismatch: Expected {expected.shape}, got {got.shape}",
                                             correctness_issue_name="correctness_issue")
                        return False
                    passed += self.close(expected, got)
                except Exception as e:
                    text = str(e)
                    self.metadata.update(runtime_error=text if len(text) <= 200 else text[:197] + "...",
                                         runtime_error_name=name_of(e), runtime_error_traceback=traceback.format_exc()[-MOST_TEXT:])
                    return False
        self.metadata["correctness_trials"] = f"({passed} / {trials})"
        return passed == trials

    def close(self, expected, got):
        limit = TOLERANCES[self.precision]
        if torch.allclose(expected, got, atol=limit, rtol=limit):
            return True
        difference = torch.abs(expected - got)
        self.metadata.setdefault("max_difference", []).append(f"{torch.max(difference).item():.6f}")
        self.metadata.setdefault("avg_difference", []).append(f"{torch.mean(difference).item():.6f}")
        self.metadata["correctness_issue"] = "Output mismatch"
        return False

    def measure(self):
        """The candidate where it is right, then the reference, always. Gradients are recorded, which check() does not."""
        if self.answer["correctness"]:
            try:
                inputs = self.inputs(self.seed)
                self.answer["candidate_ms"] = times_of(self.host, self.candidate, inputs, self.asked)
            except Exception as e:
                self.metadata["error_during_performance"] = text_of(e)
        if self.asked["check_speedup"]:
            inputs = self.inputs(self.seed)
            self.answer["reference_ms"] = times_of(self.host, self.reference, inputs, self.asked)

    def time_reference_alone(self):
        model, get_init_inputs, self.get_inputs = load_reference(read(self.asked["reference"]), {})
        with torch.no_grad():
            inputs = self.inputs(self.seed)
            torch.manual_seed(self.seed)
            made = model(*[self.taken(value) for value in get_init_inputs()])
            made = made.to(device=self.host.device, dtype=self.precision)
            self.answer["reference_ms"] = times_of(self.host, made, inputs, self.asked)


def run(asked, device):
    # The warm Python has them off.
    torch.set_grad_enabled(True)
    torch.set_printoptions(precision=4, threshold=10, edgeitems=3, linewidth=80)
    try:
        return Evaluation(asked, device).run()
    except Retry:
        return {"end": "retry"}
    except BaseException as e:  # SystemExit, too
        return {"end": "raised", "name": name_of(e), "text": text_of(e)}
