"""The resident evaluator of this process: `quern eval --serve`, asked line by line (docs/formats/eval_service.md)."""

import atexit
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
BUILDS = ("release", "quickstart", "dev")
GREETING = {"quern_eval": 1}
LONGEST_END_S = 5


class EvaluatorGone(RuntimeError):
    """The evaluator could not be started, or ended without an answer."""


def program():
    named = os.environ.get("QUERN_PROGRAM")
    if named:
        return named
    places = [CHECKOUT / "build" / build / "bin/quern" for build in BUILDS]
    for place in places:
        if place.is_file():
            return str(place)
    found = shutil.which("quern")
    if found is None:
        raise EvaluatorGone(f"no program quern in {', '.join(str(place) for place in places)} or PATH: build it, or name it in QUERN_PROGRAM")
    return found


class Resident:
    """One evaluator process. It ends when this process does, however that happens: its standard input ends."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quern-shim-")
        self.number = 0
        command = [program(), "eval", "--serve", *shlex.split(os.environ.get("QUERN_EVAL_OPTIONS", ""))]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as e:
            raise EvaluatorGone(f"{command[0]} cannot be started: {e}") from e
        if self.read() != GREETING:
            raise EvaluatorGone(f"{' '.join(command)} is no evaluator of this version")

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EvaluatorGone(f"the evaluator ended with {self.process.wait()}; its standard error says why")
        return json.loads(line)

    def ask(self, reference, source, **more):
        """The answer to a request about a reference and a candidate, both texts. RuntimeError: the evaluator refused it."""
        path = Path(self.folder.name) / "reference.py"
        path.write_text(reference, encoding="utf-8")
        self.number += 1
        request = {"id": self.number, "task": str(path), "source": source, **more}
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as e:
            raise EvaluatorGone(f"the evaluator is gone: {e}") from e
        answer = self.read()
        if answer.get("id") != self.number:
            raise EvaluatorGone(f"an answer to {answer.get('id')}, asked was {self.number}")
        if "error" in answer:
            raise RuntimeError(f"quern: {answer['error']}")
        return answer

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(LONGEST_END_S)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
        self.folder.cleanup()


_guard = threading.Lock()
_running = {}  # by process: a fork has none of its own yet, and its parent's is not for it


def _end():
    found = _running.pop(os.getpid(), None)
    if found is not None:
        found.end()


atexit.register(_end)


def ask(reference, source, **more):
    """Asks the evaluator of this process, which the first question starts. One that died is started again by the next one."""
    with _guard:
        here = os.getpid()
        if here not in _running:
            _running[here] = Resident()
        try:
            return _running[here].ask(reference, source, **more)
        except (EvaluatorGone, json.JSONDecodeError):
            _end()
            raise
