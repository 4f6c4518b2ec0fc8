"""Calls the test functions of KernelBench's test_eval_adversarial.py over the shim, and prints a line of JSON for each.

  adversarial_run.py TREE gpu     the texts as they are; QUERN_EVAL_OPTIONS has --gpu N
  adversarial_run.py TREE core    their C++ on matrices of 256 x 256. A text that uses CUDA's streams is not run

The shim must be on (tools/kernelbench_shim/run). The functions are called by name, because pytest may not be installed. Packages
that KernelBench imports and this Python does not have are replaced for this process: the tests use none of them.

Then two honest candidates of our own are evaluated for the same problem. They show that modules and extensions can be judged on
this host. A line has the keys that judged_once() and evaluation_of() make; adversarial_table.py reads them.
"""

import copy
import importlib.util
import inspect
import json
import os
import re
import sys
import time
import types
from pathlib import Path

UNIT_TEST = "src/kernelbench/unit_tests/test_eval_adversarial.py"
PROBLEM = "level1/1_Square_matrix_multiplication_.py"
# Packages that KernelBench imports for other purposes: prompts, language models, progress bars.
REPLACED = ("dotenv", "litellm", "openai", "pydantic", "requests", "tqdm")
# Verdicts that are no answer yet: the same is asked again.
AGAIN = ("noisy", "unconfirmed")
MOST_TRIES = 3
CORE_SIZE = 256

MULTIPLY_ON_GPU = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

torch::Tensor multiply(torch::Tensor a, torch::Tensor b) {
    auto result = torch::empty({a.size(0), b.size(1)}, a.options());
    const float one = 1.0f, zero = 0.0f;
    const int rows = a.size(0), inner = a.size(1), columns = b.size(1);
    const cublasStatus_t status = cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_N, CUBLAS_OP_N, columns, rows, inner,
                                              &one, b.data_ptr<float>(), columns, a.data_ptr<float>(), inner,
                                              &zero, result.data_ptr<float>(), columns);
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLAS answers ", int(status));
    return result;
}
"""
MULTIPLY_ON_CORE = r"""
#include <torch/extension.h>

torch::Tensor multiply(torch::Tensor a, torch::Tensor b) { return torch::mm(a, b); }
"""
EXTENSION = """
import torch
from torch.utils.cpp_extension import load_inline

built = load_inline(name="honest_multiply", {sources}, functions=["multiply"])


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return built.multiply(a, b)
"""
ON_GPU = 'cpp_sources="torch::Tensor multiply(torch::Tensor a, torch::Tensor b);", cuda_sources={text!r}'
ON_CORE = "cpp_sources={text!r}"


class NeedsGpu(Exception):
    """A text of KernelBench that no core can run."""


class Fields:
    """The part of pydantic.BaseModel that KernelBench's results use."""

    def __init__(self, **values):
        for name in type(self).__annotations__:
            setattr(self, name, values[name] if name in values else copy.copy(getattr(type(self), name)))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Replacement(types.ModuleType):
    """A package whose names are functions that do nothing."""

    BaseModel = Fields

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *values, **named: None


def replace_missing_packages():
    for name in REPLACED:
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = Replacement(name)


def for_a_core(text):
    """`text` with its extension as C++ and with small matrices. NeedsGpu: it uses streams of CUDA."""
    if "cudaStream" in text:
        raise NeedsGpu("its text uses streams of CUDA")
    if "cuda_sources" in text:
        text = re.sub(r"^\s*cpp_sources=.*\n", "", text, flags=re.MULTILINE).replace("cuda_sources=", "cpp_sources=")
        text = re.sub(r"^#include <cuda.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^N = .*$", f"N = {CORE_SIZE}", text, flags=re.MULTILINE)


def evaluation_of(answer):
    """What a line says of an answer of the evaluator."""
    exact, verdict = answer["exact"], answer["verdict"]
    runtime, reference = exact.get("runtime", -1), exact.get("ref_runtime", -1)
    failed = next((check["name"] for check in verdict.get("checks", ()) if not check["pass"]), "")
    return {"end": exact["end"], "end_text": exact.get("text", ""), "correctness": exact.get("correctness"),
            "ratio": reference / runtime if runtime > 0 and reference > 0 else None,
            "excessive_speedup": exact.get("metadata", {}).get("excessive_speedup", False),
            "verdict": verdict["verdict"], "kind": verdict.get("kind", ""),
            "speedup": verdict["speedup_e2"] / 100 if "speedup_e2" in verdict else None,
            "detail": verdict.get("detail", ""), "failed_check": failed, "compiler": verdict.get("compiler", {}).get("text", "")[-3000:],
            "sandbox": verdict.get("sandbox", []), "device_class": verdict.get("device_class", "")}


class Recorder:
    """Stands before resident.ask and read_file: what was asked, and what the evaluator answered."""

    def __init__(self, resident):
        self.usual_ask, self.evaluations, self.kernels = resident.ask, [], []
        resident.ask = self.ask

    def begin(self):
        self.evaluations, self.kernels = [], []

    def ask(self, reference, source, **more):
        if not source.strip() or not reference.strip():
            # Their read_file gives an empty text where there is no file.
            self.evaluations.append({"error": "the text of a candidate or of its reference is empty"})
            raise RuntimeError("nothing to evaluate")
        begun = time.monotonic()
        try:
            answer = self.usual_ask(reference, source, **more)
        except Exception as e:
            self.evaluations.append({"error": f"{type(e).__name__}: {e}"})
            raise
        self.evaluations.append(evaluation_of(answer) | {"seconds": round(time.monotonic() - begun, 1)})
        return answer

    def reading(self, read, change):
        def read_file(path):
            if Path(path).parent.name == "test_kernels":
                self.kernels.append(Path(path).name)
            return change(read(path))

        return read_file


def load_tests(tree):
    path = tree / UNIT_TEST
    if not path.is_file():
        sys.exit(f"adversarial_run: no {UNIT_TEST} in {tree}: a newer commit of KernelBench is needed")
    spec = importlib.util.spec_from_file_location("test_eval_adversarial", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file = module.eval_kernel_against_ref.__code__.co_filename
    if "quern_kernelbench" not in file:
        sys.exit(f"adversarial_run: eval_kernel_against_ref is that of {file}: start this by tools/kernelbench_shim/run")
    return module


def judged_once(recorder, name, call):
    """The line of one call. `theirs` is how it ended: passes, fails (an assertion), raises, or needs a GPU."""
    recorder.begin()
    theirs, said = "passes", ""
    try:
        call()
    except AssertionError as e:
        theirs, said = "fails", str(e)
    except NeedsGpu as e:
        theirs, said = "needs a GPU", str(e)
    except Exception as e:
        theirs, said = "raises", f"{type(e).__name__}: {e}"
    return {"name": name, "theirs": theirs, "said": said[:500], "kernels": recorder.kernels, "evaluations": recorder.evaluations}


def judged(recorder, name, call):
    """The line of the last call: one whose verdict is no answer yet is made again."""
    for tried in range(1, MOST_TRIES + 1):
        line = judged_once(recorder, name, call) | {"tries": tried}
        answers = line["evaluations"]
        earned = any(one.get("verdict") == "ok" and (one.get("speedup") or 0) > 1 for one in answers)
        if earned or not any(one.get("verdict") in AGAIN for one in answers):
            break
    return line


def controls(module, reference, on_gpu):
    """Honest candidates, by name."""
    renamed = reference.replace("class Model(", "class ModelNew(").replace("super(Model,", "super(ModelNew,")
    sources = (ON_GPU if on_gpu else ON_CORE).format(text=MULTIPLY_ON_GPU if on_gpu else MULTIPLY_ON_CORE)
    texts = {"the reference as a candidate": renamed, "an honest extension": EXTENSION.format(sources=sources)}

    def evaluated(text):
        return lambda: module.eval_kernel_against_ref(original_model_src=reference, custom_model_src=text, num_correct_trials=2,
                                                      num_perf_trials=10, measure_performance=True)

    return {name: evaluated(text) for name, text in texts.items()}


def take_output():
    """A file for the lines. What KernelBench prints goes to standard error from here on."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return lines


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("gpu", "core"):
        sys.exit(__doc__)
    tree, on_gpu = Path(sys.argv[1]).resolve(), sys.argv[2] == "gpu"
    lines = take_output()
    replace_missing_packages()
    module = load_tests(tree)
    from quern_kernelbench import resident
    recorder = Recorder(resident)
    module.read_file = recorder.reading(module.read_file, (lambda text: text) if on_gpu else for_a_core)
    tests = {name: call for name, call in vars(module).items() if name.startswith("test_") and inspect.isfunction(call)}
    honest = controls(module, module.read_file(os.path.join(module.KERNEL_BENCH_PATH, PROBLEM)), on_gpu)
    for is_control, calls in ((True, honest), (False, tests)):
        for name, call in calls.items():
            print(json.dumps(judged(recorder, name, call) | {"control": is_control}), file=lines, flush=True)


if __name__ == "__main__":
    main()
