"""Cases of test_eval_adversarial in tools/kernelbench_shim_check, over a tree of ours that has KernelBench's names.

  kernelbench_adversarial_cases.py     by a Python that has torch, with QUERN_PROGRAM; needs no GPU
The tree's hostile kernels are ours. One of its tests has a kernel that is honest and fast: the check must call it one that earned.
"""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIM = ROOT / "tools/kernelbench_shim"
CHECK = ROOT / "tools/kernelbench_shim_check"
STANDIN = Path(__file__).resolve().parent / "kernelbench_standin/kernelbench"
sys.path.insert(0, str(SHIM))
import adversarial_run  # noqa: E402
import adversarial_table  # noqa: E402

REFERENCE = """import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        for _ in range(4):
            result = torch.matmul(a, b)
        return result


N = 2048 * 2


def get_inputs():
    return [torch.rand(N, N), torch.rand(N, N)]


def get_init_inputs():
    return []
"""
NEW = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n"
KERNELS = {
    "reuse.py": NEW + "        return torch.empty_like(a)\n",
    "zeros.py": NEW + "        a.zero_(), b.zero_()\n        return torch.zeros_like(a)\n",
    "stream.py": "source = 'cudaStream_t other;'\n" + NEW + "        return torch.matmul(a, b)\n",
    "fast.py": NEW + "        return torch.matmul(a, b)\n",
}
TESTS = """
import os

from kernelbench.dataset import KERNEL_BENCH_PATH
from kernelbench.eval import eval_kernel_against_ref
from kernelbench.utils import read_file


def evaluated(name):
    print("words that are not for a line")
    reference = read_file(os.path.join(KERNEL_BENCH_PATH, "level1/1_Square_matrix_multiplication_.py"))
    kernel = read_file(os.path.join(os.path.dirname(__file__), "test_kernels", name))
    return eval_kernel_against_ref(original_model_src=reference, custom_model_src=kernel, num_correct_trials=2, num_perf_trials=2,
                                   measure_performance=True)


def test_result_cache_reuse():
    assert evaluated("reuse.py").correctness is False


def test_input_modification():
    assert evaluated("zeros.py").correctness is False


def test_non_default_stream(timing_method="do_bench"):
    assert evaluated("stream.py").metadata.get("excessive_speedup") is True


def test_of_a_fast_one():
    assert evaluated("fast.py").correctness is False, "it is right"
"""
UTILS = """
import os
from dotenv import load_dotenv
from openai import OpenAI

load_dotenv()


def read_file(path):
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()
"""


def make_tree(folder):
    package = folder / "src/kernelbench"
    problems = folder / "KernelBench/level1"
    for place in (package / "unit_tests/test_kernels", problems):
        place.mkdir(parents=True)
    for name in ("__init__.py", "eval.py", "timing.py"):
        (package / name).write_text((STANDIN / name).read_text())
    (package / "dataset.py").write_text(f"KERNEL_BENCH_PATH = {str(folder / 'KernelBench')!r}\n")
    (package / "utils.py").write_text(UTILS)
    (package / "unit_tests/test_eval_adversarial.py").write_text(TESTS)
    for name, text in KERNELS.items():
        (package / "unit_tests/test_kernels" / name).write_text(text)
    (problems / "1_Square_matrix_multiplication_.py").write_text(REFERENCE)


def line(name, verdict="wrong_value", control=False, **more):
    answer = {"end": "result", "end_text": "", "correctness": False, "ratio": None, "excessive_speedup": False, "verdict": verdict, "kind": "",
              "sandbox": ["seccomp"], "device_class": "none-torch", "speedup": None, "detail": "", "failed_check": "", "compiler": ""} | more
    return {"name": name, "control": control, "theirs": "passes", "said": "", "kernels": ["k.py"], "evaluations": [answer]}


def row(*values, **more):
    return adversarial_table.Row(line(*values, **more))


def check_rows():
    hostile = "test_non_default_stream"
    for verdict in ("wrong_value", "hack", "runtime_error", "rejected_static", "nondeterministic", "oom", "noisy", "unconfirmed"):
        assert row(hostile, verdict).met is True, verdict
    for verdict in adversarial_table.NOT_JUDGED:
        assert row(hostile, verdict).met is False, verdict
    assert row(hostile, "timeout", kind="time").met and not row(hostile, "timeout", kind="compile").met
    assert row(hostile, "ok", speedup=1.05).met and row(hostile, "ok", speedup=0.2).met
    paid = row(hostile, "ok", speedup=1.06)
    assert paid.met is False and paid.result == "EARNED: a speed-up above 1.05", paid.result
    assert not row(hostile, "ok").met, "right, and not timed"
    assert row("honest", "ok", control=True, speedup=9.0).met and not row("honest", "noisy", control=True).met

    flagged = row(hostile, "hack", kind="timing", detail="two\nlines", correctness=True, ratio=12.345, excessive_speedup=True)
    assert flagged.fields() == "correctness True, 12.35x, excessive_speedup", flagged.fields()
    assert flagged.told() == ("theirs expects: excessive_speedup is set; theirs passes; "
                              "Quern's verdict: hack timing (two); earned nothing"), flagged.told()
    gone = adversarial_table.Row(line(hostile) | {"evaluations": [{"error": "EvaluatorGone: no program"}]})
    assert (gone.met, gone.verdict(), gone.fields()) == (False, "none", "none") and "no program" in gone.details()
    assert adversarial_table.Row(line(hostile) | {"evaluations": []}).met is False
    # The worse of two answers counts.
    twice = line(hostile)
    twice["evaluations"] += line(hostile, "ok", speedup=2.0)["evaluations"]
    assert adversarial_table.Row(twice).met is False
    elsewhere = adversarial_table.Row(line(hostile) | {"theirs": "needs a GPU", "evaluations": []})
    assert elsewhere.met is None

    names = list(adversarial_table.EXPECTED)
    rows = adversarial_table.rows_of([line("honest", "ok", control=True, speedup=1.0), line(names[0]), line(names[1])])
    assert [one.met for one in rows] == [True, True, True, False] and rows[-1].theirs == "not there", rows[-1].cells()
    assert adversarial_table.summary(rows) == "2 of 3 hostile kernels earned nothing, 1 of 1 controls are ok"
    assert adversarial_table.summary([elsewhere]).endswith("; 1 not run")
    assert adversarial_table.place(rows).startswith("Judged on none-torch; sandbox: seccomp.\n")
    assert adversarial_table.place([elsewhere, gone]).startswith("Judged on nothing; sandbox: none.\n")
    written = adversarial_table.table(rows).split("\n")
    assert len(written) == 5 and written[0].startswith("test function") and written[1].startswith("control: honest"), written


def check_texts():
    text = ('A = r"""\n#include <torch/extension.h>\n#include <cuda_runtime.h>\n"""\n\nmade = load_inline(\n    name="x",\n    cpp_sources=declared,\n'
            '    cuda_sources=A,\n)\n\nN = 2048 * 2\n')
    changed = adversarial_run.for_a_core(text)
    assert "cuda" not in changed and "    cpp_sources=A,\n" in changed and "declared" not in changed and "\nN = 256\n" in changed, changed
    assert "torch/extension.h" in changed
    try:
        adversarial_run.for_a_core("cudaStreamCreate")
        raise AssertionError("no core has streams of CUDA")
    except adversarial_run.NeedsGpu:
        pass

    package = adversarial_run.Replacement("pydantic")

    class Result(package.BaseModel):
        compiled: bool = False
        metadata: dict = {}

    first, second = Result(compiled=True), Result()
    first.metadata["a"] = 1
    assert (first.compiled, second.compiled, second.metadata, repr(second)) == (True, False, {}, "Result(compiled=False, metadata={})")
    assert package.load_dotenv("x") is None


def loaded_check():
    loader = importlib.machinery.SourceFileLoader("kernelbench_shim_check", str(CHECK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kernelbench_shim_check", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def check_environment(folder):
    """What the evaluator is started with."""
    module, usual = loaded_check(), dict(os.environ)
    for name in ("QUERN_SHARE", "QUERN_EVAL_OPTIONS"):
        os.environ.pop(name, None)
    found = module.Check(folder, "python3", folder, 3).environment()
    assert (found["QUERN_EVAL_OPTIONS"], found["QUERN_PROGRAM"]) == ("--best-effort --gpu 3", f"{folder}/bin/quern"), found
    assert found["QUERN_SHARE"] == str(ROOT), found
    # An installation, and a build of this tree, have files of their own.
    assert "QUERN_SHARE" not in module.Check(folder, "python3", ROOT / "build/dev").environment()
    (folder / "share/quern").mkdir(parents=True)
    assert "QUERN_SHARE" not in module.Check(folder, "python3", folder).environment()
    os.environ["QUERN_EVAL_OPTIONS"] = "--budget-s 1"
    assert module.Check(folder, "python3", None, 0).environment()["QUERN_EVAL_OPTIONS"] == "--budget-s 1 --gpu 0"
    assert module.Check(folder, "python3").environment()["QUERN_EVAL_OPTIONS"] == "--budget-s 1"
    os.environ.clear()
    os.environ.update(usual)


def checked(tree, *words, **more):
    environment = {name: value for name, value in os.environ.items() if name != "QUERN_REQUIRE_GPU"}
    return subprocess.run([sys.executable, str(CHECK), str(tree), "--python", sys.executable, *words], capture_output=True, text=True,
                          env=environment | more)


def check_arguments(tree):
    for words in ("-1", "64", "x", ""):
        refused = checked(tree, "--gpu", words)
        assert refused.returncode == 2 and "--gpu" in refused.stderr, refused
    refused = checked(tree, "--gpu", "0", QUERN_EVAL_OPTIONS="--gpu 1")
    assert refused.returncode == 2 and "say it once" in refused.stderr, refused
    refused = checked(tree, "--build", str(tree))
    assert refused.returncode == 1 and "no program bin/quern" in refused.stderr, refused
    if Path("/dev/nvidiactl").exists():
        return
    skipped = checked(tree, "--gpu", "0")
    assert skipped.returncode == 77 and "skipped: --gpu 0 needs an NVIDIA GPU" in skipped.stderr, skipped
    required = checked(tree, "--gpu", "0", QUERN_REQUIRE_GPU="1")
    assert required.returncode == 1 and "a GPU is required here" in required.stderr, required


def check_run(tree):
    """All of it on a core, over the evaluator."""
    done = checked(tree, "--only", "test_eval_adversarial")
    said = done.stdout
    print(said)
    assert not done.stderr, done
    told = {name: next(one for one in said.splitlines() if f"test_eval_adversarial, {name}" in one) for name in (
        "control: the reference as a candidate", "control: an honest extension", *adversarial_table.EXPECTED, "test_of_a_fast_one")}
    assert [told[name][:4] for name in adversarial_table.EXPECTED] == ["ok  ", "ok  ", "--  "], told
    assert "input_modified" in told["test_input_modification"], told
    assert "words that are not for a line" not in said
    if any(word in said for word in ("verdict: noisy", "verdict: unconfirmed")):
        print("not compared: times of a host that is too busy")
    else:
        assert [told[name][:4] for name in told if name not in adversarial_table.EXPECTED] == ["ok  ", "ok  ", "FAIL"], told
        assert "EARNED: a speed-up above 1.05" in told["test_of_a_fast_one"] and "theirs fails" in told["test_of_a_fast_one"], told
        assert "2 of 3 hostile kernels earned nothing, 2 of 2 controls are ok; 1 not run" in said, said
        assert done.returncode == 1 and said.endswith("1 not as they should be\n"), done

    # The controls: without the shim, and of a tree that does not have the tests.
    run = [sys.executable, str(SHIM / "adversarial_run.py"), str(tree), "core"]
    bare = subprocess.run(run, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=str(tree / "src")))
    assert bare.returncode != 0 and "start this by tools/kernelbench_shim/run" in bare.stderr and not bare.stdout, bare
    (tree / adversarial_run.UNIT_TEST).unlink()
    older = checked(tree, "--only", "test_eval_adversarial")
    assert older.returncode == 1 and "a newer commit of KernelBench is needed" in older.stdout, older
    assert "0 of 3 hostile kernels earned nothing" in older.stdout, older


def main():
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        make_tree(folder / "tree")
        (folder / "build").mkdir()
        for check, words in ((check_rows, ()), (check_texts, ()), (check_environment, (folder / "build",)), (check_arguments, (folder / "tree",)),
                             (check_run, (folder / "tree",))):
            check(*words)
            print(f"{check.__name__} passed, {time.monotonic() - begun:.1f} s", flush=True)
    print(f"all passed, {time.monotonic() - begun:.1f} s", flush=True)


main()
