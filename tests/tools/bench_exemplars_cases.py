"""What tools/benchmarks/bench_exemplars makes of answers, of options and of runs that are missing.

  python3 tests/tools/bench_exemplars_cases.py ROOT FOLDER      exit code 0: all hold
"""
import contextlib
import gzip
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys

ROOT, FOLDER = map(pathlib.Path, sys.argv[1:])
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("bench_exemplars", str(ROOT / "tools/benchmarks/bench_exemplars"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_exemplars", LOADER))
LOADER.exec_module(bench)

# A stand-in for quern: `train` leaves a policy, `ablate` an evaluation set whose rewards are REWARD_plain
# and REWARD_contrastive. Both note that they ran. FAILS names a command that fails.
STANDIN = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
value = lambda option: words[words.index(option) + 1]
sets = dict(words[k + 1].split("=", 1) for k, word in enumerate(words) if word == "--set")
if "--dry-run" in words:
    if sets.get("replay.seed_variants") == "16":
        sys.exit("replay.seed_variants is 16; at most 15")
    if words[0] == "ablate" and not pathlib.Path(value("--stage1")).match("policy/demo"):
        sys.exit("begins with " + value("--stage1"))
    sys.exit(0)
assert sets["tasks.held_out_skip"] == "0" and sets["learner.device"] == "cpu", sets
assert len(os.sched_getaffinity(0)) == 1 and os.environ["CUDA_VISIBLE_DEVICES"] == "", "its place"
run = pathlib.Path(sets["run.folder"] if words[0] == "train" else value("--out"))
assert ("schedule=linear" in str(run)) == (sets.get("learner.schedule") == "linear"), "settings of its name"
with open(pathlib.Path(sys.argv[0]).parent / "made", "a") as made:
    made.write(f"{run.parent.name}/{run.name}\\n")
if os.environ.get("FAILS") == words[0]:
    sys.exit("no room")
if words[0] == "train":
    model = run / "checkpoints/v00000001/model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    sys.exit(0)
assert pathlib.Path(value("--stage1"), "config.json").exists(), "its policy"
arm = value("--arms")
reward = float(os.environ["REWARD_plain" if arm == "+grpo" else "REWARD_contrastive"])
shown = [] if arm == "+grpo" else ["a", "b"]
side = lambda reward: {"reward": reward, "verdict": {"verdict": "ok", "speedup_e2": int(100 * reward), "source": "c"}}
items = [{"task": task, "held_out": held, "swapped": swapped, "shown": shown, "best_own": 200, "first": side(0.5),
          "last": side(reward / 2 if swapped else reward)}
         for task in ("p", "q", "r") for held in (True, False) for swapped in (False, True)]
folder = run / "arm" / ("seed-" + value("--seeds"))
folder.mkdir(parents=True)
(folder / "evaluation_set.json").write_text(json.dumps({"items": items}))
(folder / "metrics.jsonl").write_text("".join(json.dumps({"step": k, "batch": {"ok": ok}}) + "\\n"
                                               for k, ok in enumerate((0.5, 0.7, 0.2, 0.4))) + '{"step')
import sqlite3
ledger = sqlite3.connect(folder / "run.db")
ledger.executescript("CREATE TABLE verdicts(i); CREATE TABLE variants(i); INSERT INTO verdicts VALUES (1), (2)")
"""


def row(reward, task="t", n=0, swapped=False, shown=2, best=200, speedup=100, copy=False):
    return {"task": task, "n": n, "swapped": swapped, "shown": shown, "best": best, "reward": reward, "first": 0.5,
            "ok": bool(reward), "speedup": speedup if reward else 0, "copy": copy}


def check_figures():
    told = bench.figures({1: [row(2.0, speedup=206), row(1.0, n=1, copy=True), row(0.0, n=2), row(None, n=3),
                              row(3.0, n=4, shown=0), row(0.25, swapped=True), row(9.0, n=1, swapped=True, shown=0)]})
    assert told["answers"] == 4 and told["reward"] == 1.5 and told["right"] == 0.75, told
    assert told["with"] == 1.0 and told["without"] == 3.0 and told["swapped"] == 0.25, told
    assert told["improves"] == told["copies"] == 1 / 3 and told["best"] == 2.0 and told["shown"] == 0.75, told
    # Two per cent over the best are no improvement; what copying brings is capped as the reward is.
    told = bench.figures({1: [row(2.0, speedup=205, best=200), row(3.0, n=1, best=900, speedup=300)]})
    assert told["improves"] == 0 and told["best"] == 2.5, told
    assert bench.figures({1: []})["reward"] is None


def check_ratios():
    plain = {seed: [row(1.0, task, n) for task in "pqrs" for n in (0, 1)] for seed in (1, 2)}
    double = {seed: [row(2.0, task, n) for task in "pqrs" for n in (0, 1)] for seed in (1, 2)}
    assert bench.ratio(double, plain) == (16, 2.0, 2.0, 2.0)
    assert bench.ratio(plain, double)[1] == 0.5
    # Rewards of one task have no interval, and nothing is said to hold.
    alone = bench.ratio({1: double[1][:2]}, plain)
    assert alone == (2, 2.0, None, None) and bench.judge("a", "b", alone).endswith("too few to tell"), alone
    zeros = {1: [row(0.0, task) for task in "qrs"]}
    assert bench.ratio({1: zeros[1] + [row(2.0, "p")]}, {1: zeros[1] + [row(1.0, "p")]}) == (4, 2.0, None, None)
    # A seed, a prompt or a reward that one side lacks is no pair; nor are kernels of another task.
    assert bench.ratio({1: double[1], 3: double[2]}, plain)[0] == 8
    assert bench.ratio({1: double[1][:3] + [row(None, "q", 1)]}, plain)[0] == 3
    assert bench.ratio({1: [row(2.0, "p", 0), row(0.0, "p", 0, swapped=True)]}, plain)[:2] == (1, 2.0)
    assert bench.ratio({1: [row(0.0)]}, {1: [row(0.0)]}) == (1, None, None, None)
    # One task of four that gains much: the mean is above 1 and no draw is sure of it.
    some = {seed: [row(9.0 if task == "p" else 1.0, task, n) for task in "pqrs" for n in (0, 1)] for seed in (1, 2)}
    pairs, value, low, high = bench.ratio(some, plain)
    assert (pairs, value, low) == (16, 3.0, 1.0) and high > 3, (pairs, value, low, high)
    assert bench.judge("a", "b", (16, 2.0, 1.01, 3.0)).endswith(": holds")
    assert bench.judge("a", "b", (16, 2.0, 1.0, 3.0)).endswith(": does not hold")


def check_sentences():
    base, better = {1: [row(1.0, t, shown=0) for t in "pq"]}, {1: [row(2.0, t) for t in "pq"]}
    said = bench.tables({"grpo": base, "half": base, "grpo-long": better, "all-8-long": better})
    assert "highest with exemplars: all-8-long; better than grpo: all-8-long" in said, said
    assert any(line.startswith("all-8-long over grpo-long (the same steps and settings): x1.00") for line in said), said
    said = bench.tables({"grpo": base, "half": base, "grpo-long": better})
    assert "highest with exemplars: half; better than grpo: none" in said, said
    assert not any("same steps" in line for line in said)


def check_parts():
    head = "run:\n  name: x\nstages:\n"
    first, second = "  - stage: self_train\n    a: 1\n", "  - stage: contrastive\n    b: 2\n"
    parts = bench.split_stages(head + first + second)
    assert parts == {"self_train": head + first, "contrastive": head + second}, parts
    for other in (head + second, head + second + first, "run:\n  name: x\n"):
        try:
            bench.split_stages(other)
            raise AssertionError(other)
        except ValueError as problem:
            assert "needs self_train and contrastive" in str(problem)
    assert bench.places([4, 5, 6, 7, 8], 2, 5) == [[4, 5], [6, 7]]
    assert bench.places([4, 5, 6, 7, 8], 2, 3) == [[4, 5]]
    rows = bench.rows_of([{"task": task, "held_out": held, "swapped": False, "shown": ["x"], "best_own": 1,
                           "first": {"reward": 0}, "last": {"reward": 1, "verdict": {"verdict": "ok", "source": "x"}}}
                          for task, held in (("p", True), ("p", True), ("q", False), ("q", True))])
    assert [(one["task"], one["n"], one["copy"]) for one in rows] == [("p", 0, True), ("p", 1, True), ("q", 0, True)]
    # All settings of a variant are keys of the configuration, and each has a name of its own in the help.
    keys = (ROOT / "configs/reference.yaml").read_text()
    for name, variant in bench.VARIANTS.items():
        for key in variant.settings:
            assert f"\n  {key.split('.')[1]}:" in keys, (name, key)
    assert bench.alike("all-8-long", ["grpo", "grpo-long"]) == "grpo-long"
    assert bench.alike("all-8", ["grpo", "grpo-long"]) is None
    # Settings behind a name go over those of the variant, and what is compared has the same ones.
    slow = bench.variant_of("all+learner.learning_rate=0.00003+replay.seed_variants=4")
    assert slow.settings["learner.learning_rate"] == "0.00003" and slow.settings["replay.seed_variants"] == "4"
    assert bench.VARIANTS["all"].settings["replay.seed_variants"] == 2 and slow.arm == bench.VARIANTS["all"].arm
    one, other = "+learner.schedule=linear", "+learner.learning_rate=0.00003"
    assert bench.alike("all" + one, ["grpo", "grpo" + other, "grpo" + one]) == "grpo" + one
    assert bench.alike("all" + one, ["grpo", "grpo" + other, "grpo-long" + one]) is None


def check_options():
    for words, said in {("--seeds", "1,1"): "'1,1' is no list of seeds", ("--seeds", "0"): "'0' is no list",
                        ("--variants", "half,al"): "no variant 'al'; known are grpo", ("--limit-s", "-1"): "'-1' is no whole number",
                        ("--variants", "half+learner.steps"): "'learner.steps' is no setting", ("--variants",
                        "all+learner.steps=8"): "--steps", ("--variants", "all+tasks.held_out_skip=9"): "the same for all",
                        ("--variants", "all+policy.a=x/../y"): "is no setting", ("--variants",
                        "all+learner.schedule=linear+learner.learning_rate=1"): "in the order", ("--variants",
                        "all+learner.learning_rate=1+learner.learning_rate=2"): "each key once",
                        ("--cores", "100000"): "--cores is 100000, but", ("--cores", "1", "--cores-per-run", "2"):
                        "--cores-per-run is 2, more than --cores"}.items():
        with contextlib.redirect_stderr(io.StringIO()) as told:
            try:
                bench.parse(words)
                raise AssertionError(words)
            except SystemExit as end:
                assert end.code == 2 and said in told.getvalue(), (words, told.getvalue())
    assert bench.parse(("--variants", "half", "--cores-per-run", "1"))[1].variants == ["grpo", "half"]


def run(out, *words, plain=1.0, contrastive=1.0, fails=""):
    environment = {"PATH": os.environ["PATH"], "REWARD_plain": str(plain), "REWARD_contrastive": str(contrastive), "FAILS": fails}
    return subprocess.run([sys.executable, ROOT / "tools/benchmarks/bench_exemplars", "--build", FOLDER / "build", "--cores", "1",
                           "--cores-per-run", "1", "--out", FOLDER / out, *words], env=environment, capture_output=True, text=True)


def made():
    file = FOLDER / "build/bin/made"
    lines = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def check_runs():
    (FOLDER / "build/bin").mkdir(parents=True)
    quern = FOLDER / "build/bin/quern"
    quern.write_text(STANDIN)
    quern.chmod(0o755)
    end = run("two", "--seeds", "1,2", "--variants", "half", contrastive=2.0)
    assert end.returncode == 0 and "half over grpo: x2.00 (2.00 to 2.00) over 6 pairs: holds" in end.stdout, end
    assert "2 verdicts and 0 kernels in the archive" in end.stdout, end
    assert "half/2: right answers of the batches, steps 1 to 2: 60 %; 3 to 4: 30 %" in end.stdout, end
    assert made() == ["stage2/seed-1", "stage2/seed-2", "grpo/seed-1", "half/seed-1", "grpo/seed-2", "half/seed-2"]
    # Only what is missing is made; a variant with a stage 2 of its own has that made, too.
    end = run("two", "--seeds", "1", "--variants", "half,all-8-s2")
    assert end.returncode == 0 and len(ran := made()) == 2 and ran[1] == "all-8-s2/seed-1", (end, ran)
    # The rows say the same again, without any run.
    again = run("none", "--rows", FOLDER / "two/rows.jsonl.gz")
    assert again.returncode == 0 and "half over grpo: x2.00 (2.00 to 2.00) over 3 pairs: holds" in again.stdout, again
    assert made() == [] and not (FOLDER / "none").exists()
    # Settings behind a name have a folder of their own, and reach the run.
    end = run("two", "--seeds", "1", "--variants", "half+learner.schedule=linear,grpo+learner.schedule=linear", contrastive=2.0)
    assert end.returncode == 0 and "over grpo+learner.schedule=linear (the same steps and settings): x2.00" in end.stdout, end
    assert made() == ["half+learner.schedule=linear/seed-1", "grpo+learner.schedule=linear/seed-1"]
    # Other settings are another sweep.
    end = run("two", "--seeds", "1", "--variants", "half", "--steps", "8")
    assert end.returncode == 2 and "--steps is 8, but the runs in" in end.stderr and made() == [], end


def check_ends():
    end = run("fails", "--seeds", "1", "--variants", "half", fails="ablate")
    assert end.returncode == 1 and "half, seed 1 ended with 1: see" in end.stdout and "no room" in end.stdout, end
    made()
    # Without stage 2 nothing follows.
    end = run("fails_2", "--seeds", "1", "--variants", "half", fails="train")
    assert end.returncode == 1 and made() == ["stage2/seed-1"], end
    end = run("missing", "--seeds", "3", "--variants", "half", "--table")
    assert end.returncode == 3 and "3 runs are missing" in end.stdout and made() == [], end
    end = run("dry", "--variants", "half,all-16", "--dry-run")
    assert end.returncode == 1 and "half: taken" in end.stdout and "all-16: replay.seed_variants is 16; at most 15" in end.stdout, end
    end = run("other", "--variants", "half", "--dry-run", "--set", "policy.model=other/one")
    assert end.returncode == 1 and "half: begins with other/one" in end.stdout, end


def check_refused_files():
    """What is no file of rows, and what is no folder of runs, is one line that names the value; nothing is made."""
    def refused(option, value, wanted):
        end = run(*(value, ) if option == "--out" else ("none", option, value))
        assert end.returncode == 2 and end.stderr.count("\n") == 1 and end.stdout == "", end
        assert f"{option} is {FOLDER / value}" in end.stderr and wanted in end.stderr, end
        assert not (FOLDER / "none").exists() and made() == [], end

    plain = FOLDER / "plain.md"
    plain.write_text("# no gzip\n")
    whole = gzip.compress(json.dumps({"variant": "grpo", "seed": 1, **row(1.0)}).encode() + b"\n")
    lines = {"plain.md": None, "cut.gz": whole[:-12], "garbled.gz": whole[:12] + b"\xff" * 8 + whole[20:],
             "binary.gz": gzip.compress(b"\xff\xfe\n"), "text.gz": gzip.compress(b"words\n"), "list.gz": gzip.compress(b"[1]\n"),
             "key.gz": gzip.compress(b'{"variant": "grpo", "seed": 1}\n'),
             "variant.gz": gzip.compress(json.dumps({"variant": "none", "seed": 1, **row(1.0)}).encode()),
             "reward.gz": gzip.compress(json.dumps({"variant": "grpo", "seed": 1, **row("much")}).encode())}
    for name, content in lines.items():
        if content is not None:
            (FOLDER / name).write_bytes(content)
        refused("--rows", FOLDER / name, "name the rows.jsonl.gz of a sweep")
    (FOLDER / "whole.gz").write_bytes(whole)
    assert run("none", "--rows", FOLDER / "whole.gz").returncode == 0
    for value in ("plain.md", "plain.md/below"):
        refused("--out", value, "name a new folder, or that of an earlier sweep")
    assert plain.read_text() == "# no gzip\n"
    (FOLDER / "damaged").mkdir()
    (FOLDER / "damaged/sweep.json").write_text("{")
    refused("--out", "damaged", "sweep.json cannot be read")


check_figures()
check_ratios()
check_sentences()
check_parts()
check_options()
check_runs()
check_ends()
check_refused_files()
