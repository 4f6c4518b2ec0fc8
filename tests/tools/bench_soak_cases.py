"""What tools/benchmarks/bench_soak decides: its schedule, its intervals, and what it makes of a ledger.

  python3 tests/tools/bench_soak_cases.py ROOT FOLDER      exit code 0: all hold
"""
import collections
import importlib.machinery
import importlib.util
import pathlib
import sqlite3
import sys

ROOT, FOLDER = map(pathlib.Path, sys.argv[1:])
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("bench_soak", str(ROOT / "tools/benchmarks/bench_soak"))
soak = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_soak", LOADER))
LOADER.exec_module(soak)


def check_schedule():
    faults = soak.schedule(1, 133, True)
    kinds = collections.Counter(fault.kind for fault in faults)
    assert len(faults) == 133
    assert min(kinds[kind] for kind in soak.LONG_LIVED + soak.SHORT_LIVED) >= 15, kinds
    for kind in soak.LONG_LIVED + soak.SHORT_LIVED:
        ways = collections.Counter(fault.how for fault in faults if fault.kind == kind)
        assert min(ways["kill"], ways["stop"]) >= 3, (kind, ways)
    assert {fault.how for fault in faults if fault.kind == "disk"} == set(soak.PLACES)
    assert faults == soak.schedule(1, 133, True) != soak.schedule(2, 133, True)
    assert not any(fault.kind == "disk" for fault in soak.schedule(1, 133, False))


def check_intervals():
    # Overlap counts once, what lies before the run or behind it not at all.
    assert soak.covered([(-5, 10), (5, 20), (90, 120)], 0, 100) == 0.3
    assert soak.covered([], 0, 100) == 0
    assert soak.inside([(5, 10)], 5) and soak.inside([(5, 10)], 10) and not soak.inside([(5, 10)], 11)


class Rows:
    """A ledger of three samples: trained; lost to infrastructure at 50; in flight."""

    def __init__(self):
        self.db = sqlite3.connect(FOLDER / "run.db")
        self.db.execute("CREATE TABLE samples(id, state, drop_reason)")
        self.db.execute("CREATE TABLE events(seq INTEGER PRIMARY KEY, sample, old, new, t_ns)")
        self.db.executemany("INSERT INTO samples VALUES (?, ?, ?)",
                            [(1, "trained", None), (2, "dropped", "infra_error"), (3, "issued", None)])
        self.db.executemany("INSERT INTO events(sample, old, new, t_ns) VALUES (?, ?, ?, ?)",
                            [(1, None, "issued", 1), (2, None, "issued", 2), (1, "issued", "trained", 3),
                             (3, None, "issued", 40), (2, "issued", "dropped", 50)])

    def rows(self, question, *values):
        return self.db.execute(question, values).fetchall()


def check_ledger():
    run = Rows()
    clear = soak.Ledger(run, [(30, 60)])
    assert clear.holds and clear.issued == 3 and clear.in_flight == 1
    assert (clear.lost_outside, clear.issued_outside) == (0, 2)
    assert clear.reasons == {"infra_error": 1}
    assert soak.Ledger(run, [(30, 45)]).lost_outside == 1
    # A row without a history, and a history that jumps.
    run.db.execute("INSERT INTO samples VALUES (4, 'trained', NULL)")
    assert not soak.Ledger(run, []).holds
    run.db.execute("DELETE FROM samples WHERE id = 4")
    run.db.execute("INSERT INTO events(sample, old, new, t_ns) VALUES (3, 'admitted', 'issued', 70)")
    torn = soak.Ledger(run, [])
    assert not torn.holds and torn.torn == 1


def check_quarters():
    class Nobody:
        pass
    watch = soak.Watch(Nobody())
    assert watch.quarter(2, 1, "control") == 0
    for second in range(101):
        watch.seen.append((second, {"control": 1000 if second < 75 else 2000}, {"control": 9}))
    assert watch.quarter(2, 1, "control") == 1000 and watch.quarter(4, 1, "control") == 2000
    assert watch.quarter(2, 2, "control") == watch.quarter(4, 2, "control") == 9


def check_growth():
    # A tenth, or what is nothing where that is more; a role that was never seen is not steady.
    assert soak.steady(100 * 1024, 110 * 1024, 4096)[0]
    assert not soak.steady(100 * 1024, 111 * 1024, 4096)[0]
    assert soak.steady(25 * 1024, 29 * 1024, 4096) == (True, 29 * 1024)
    assert not soak.steady(25 * 1024, 29 * 1024 + 1, 4096)[0]
    # A cache of 64 MiB that control filled for as long as it lived: 100 minutes found this.
    assert not soak.steady(39.0 * 1024, 51.1 * 1024, 4096)[0]
    assert not soak.steady(0, 0, 4096)[0]


for case in (check_schedule, check_intervals, check_ledger, check_quarters, check_growth):
    case()
