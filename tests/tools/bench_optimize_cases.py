"""What tools/benchmarks/bench_optimize makes of searches: scores, gains, intervals, and what it makes again.

  python3 tests/tools/bench_optimize_cases.py ROOT FOLDER      exit code 0: all hold
"""
import importlib.machinery
import importlib.util
import json
import pathlib
import sqlite3
import subprocess
import sys

ROOT, FOLDER = map(pathlib.Path, sys.argv[1:])
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("bench_optimize", str(ROOT / "tools/benchmarks/bench_optimize"))
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_optimize", LOADER))
LOADER.exec_module(bench)

# A stand-in for quern: searches end at once, with the speed-up that SPEED_search or
# SPEED_independent says (in 1/100; 0: no kernel is right), and note that they were made.
STANDIN = """#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
value = lambda option: words[words.index(option) + 1]
if words[:2] == ["tasks", "generate"]:
    suite = pathlib.Path(value("--out"))
    suite.mkdir(parents=True)
    for k in range(int(value("--count"))):
        (suite / f"task{k}.task.yaml").write_text("")
    sys.exit(0)
assert words[0] == "optimize" and "--best-effort" in words, words
run, way = pathlib.Path(value("--run")), "independent" if "--independent" in words else "search"
run.mkdir(exist_ok=True)
with open(run.parent / "made", "a") as made:
    made.write(f"{run.name}\\\\n")
if os.environ.get("FAILS") == way:
    sys.exit(1)
speed, budget = int(os.environ[f"SPEED_{way}"]), int(value("--budget"))
best = {"generation": 2, "again": {"verdict": "ok", "speedup_e2": speed}} if speed else None
(run / "best.verdict.json").write_text(json.dumps({"source": os.environ.get("KERNEL", way)}))
(run / "optimize.json").write_text(json.dumps(
    {"budget": budget, "spent": budget, "verdicts": {"ok": 3, "wrong_value": budget - 3}, "best": best}))
"""


def told(speedup_e2, verdict="ok", kernel="a"):
    best = {"again": {"verdict": verdict, "speedup_e2": speedup_e2}} if speedup_e2 else None
    return {"budget": 8, "spent": 8, "verdicts": {"ok": 2, "noisy": 6}, "best": best,
            "kernel": kernel if best else None}


def check_scores():
    assert bench.speedup(told(250)) == 2.5
    assert bench.speedup(told(0)) == 0
    # What was not right when it was measured again is nothing.
    assert bench.speedup(told(250, "wrong_value")) == 0
    # One kernel has one speed.
    assert bench.speedups((told(200, kernel="a"), told(300, kernel="b"))) == (2, 3)
    same = bench.speedups((told(200), told(800)))
    assert all(abs(one - 4) < 1e-12 for one in same), same
    assert bench.speedups((told(200), told(800, "noisy"))) == (2, 2)
    assert bench.speedups((told(200, kernel="a"), told(800, "noisy", kernel="b"))) == (2, 0)
    assert bench.speedups((told(0), told(0))) == (0, 0)
    assert bench.right_share(told(1)) == 0.25
    assert bench.wins([(2, 1), (1, 2), (1, 1.01), (0, 0), (1, 0)]) == (2, 2, 1)


def check_gains():
    assert abs(bench.gain([(2, 1), (1, 2)]) - 1) < 1e-12
    assert abs(bench.gain([(4, 1), (1, 1)]) - 2) < 1e-12
    low, high = bench.interval({k: [(2, 1)] * 3 for k in range(5)}, draws=200)
    assert low == high == 2
    # One task that gains and many that do not: no draw of tasks is sure of it.
    low, high = bench.interval({0: [(8, 1)] * 3, **{k: [(1, 1)] * 3 for k in range(1, 5)}})
    assert low == 1 < high
    # The same pairs as tasks of their own would seem surer than they are.
    alone = bench.interval({k: [(2, 1) if k % 2 else (1, 1)] for k in range(12)})
    tied = bench.interval({k: [(2, 1) if k % 2 else (1, 1)] * 6 for k in range(2)})
    assert tied[0] < alone[0] and tied[1] > alone[1], (alone, tied)


def check_claims():
    """A sample's last verdict is what its score is."""
    folder = FOLDER / "claims"
    folder.mkdir()
    with sqlite3.connect(folder / "run.db") as made_up:
        made_up.execute("CREATE TABLE verdicts(id INTEGER PRIMARY KEY, sample INTEGER, json TEXT)")
        for sample, told in [(1, {"verdict": "ok", "claim_e2": 900}), (1, {"verdict": "ok"}), (2, {"verdict": "wrong_value"}),
                             (3, {"verdict": "ok", "claim_e2": 500})]:
            made_up.execute("INSERT INTO verdicts(sample, json) VALUES (?, ?)", (sample, json.dumps(told)))
    assert bench.claims_left([folder]) == (1, 2)


def run(speeds, *words, fails="", kernel=None):
    environment = {"PATH": "/usr/bin:/bin", "FAILS": fails, **({"KERNEL": kernel} if kernel else {}),
                   "SPEED_search": str(speeds[0]), "SPEED_independent": str(speeds[1])}
    return subprocess.run([sys.executable, ROOT / "tools/benchmarks/bench_optimize", "--build", FOLDER / "build",
                           "--best-effort", *words], env=environment, capture_output=True, text=True)


def made(out):
    file = FOLDER / out / "made"
    return file.read_text().split() if file.exists() else []


def check_runs():
    (FOLDER / "build/bin").mkdir(parents=True)
    quern = FOLDER / "build/bin/quern"
    quern.write_text(STANDIN.replace("\\\\n", "\\n"))
    quern.chmod(0o755)
    better = ["--tasks", "2", "--seeds", "1,2", "--budget", "16", "--out", FOLDER / "better"]
    end = run((200, 100), *better)
    assert end.returncode == 0, end
    assert "2 tasks, 4 pairs: gain x2.000" in end.stdout, end.stdout
    assert "of the second x1.000 (95 % interval x1.000 to x1.000)" in end.stdout, end.stdout
    assert "faster in 4, within 2 % in 0 (the same kernel in 0), slower in 0" in end.stdout
    assert "without the task that it owes most to x2.000" in end.stdout, end.stdout
    # Each way is the first of a pair as often as the other.
    order = made("better")
    assert len(order) == 8 and [one.endswith("-search") for one in order[::2]].count(True) == 2, order
    # What is there is not made again; another budget is another search.
    assert run((200, 100), *better).returncode == 0 and len(made("better")) == 8
    assert run((200, 100), *better, "--budget", "24").returncode == 0 and len(made("better")) == 16
    # Controls: no better, and worse.
    for name, speeds in {"same": (100, 100), "worse": (100, 300), "none": (0, 0)}.items():
        end = run(speeds, "--tasks", "2", "--seeds", "1", "--out", FOLDER / name)
        assert end.returncode == 1 and "gain" in end.stdout, end
    # A kernel slower than the baseline counts as the baseline; the same kernel is no gain.
    end = run((50, 40), "--tasks", "2", "--seeds", "1", "--out", FOLDER / "slow")
    assert end.returncode == 1 and "gain x1.000" in end.stdout, end
    end = run((300, 100), "--tasks", "2", "--seeds", "1", "--out", FOLDER / "shared", kernel="one")
    assert end.returncode == 1 and "gain x1.000" in end.stdout, end
    assert "the same kernel in 2" in end.stdout, end
    assert "with two speeds for a kernel that both found x3.000" in end.stdout, end


def check_ends():
    # A search that fails ends the benchmark with its log, and the rest is not judged.
    end = run((200, 100), "--tasks", "1", "--seeds", "2", "--out", FOLDER / "fails", fails="independent")
    assert end.returncode == 1 and "independent ended with 1" in end.stderr, end
    assert "gain" not in end.stdout
    end = run((200, 100), "--tasks", "1", "--seeds", "2", "--out", FOLDER / "late", "--seconds", "1e-9")
    assert end.returncode == 3 and "2 searches are missing" in end.stdout, end
    end = run((200, 100), "--tasks", "9", "--suite", FOLDER / "better/suite", "--out", FOLDER / "few")
    assert end.returncode == 1 and "--tasks is 9" in end.stderr, end


check_scores()
check_gains()
check_claims()
check_runs()
check_ends()
