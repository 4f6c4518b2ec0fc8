"""Cases of `quern eval --serve`: lines that are no requests, the end of the input, a client that dies.

  eval_service_cases.py QUERN [endless]    endless: also a client that dies in the middle of an evaluation (needs a Python with torch)
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(8, 8)]

def get_init_inputs():
    return []
"""
ENDLESS = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        while True: pass\n"
LONGEST_LINE = 8 << 20
PATIENCE_S = 120


class Service:
    def __init__(self, quern):
        self.process = subprocess.Popen([quern, "eval", "--serve", "--best-effort"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert json.loads(self.process.stdout.readline()) == {"quern_eval": 1}

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def error(self, line):
        """(id, error) of the answer."""
        self.send(line)
        answer = json.loads(self.process.stdout.readline())
        assert set(answer) == {"id", "error"}, answer
        return answer["id"], answer["error"]


def descendants(pid):
    """Processes below `pid`, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass
    found, growing = {pid}, True
    while growing:
        more = {one for one, parent in parents.items() if parent in found} - found
        found |= more
        growing = bool(more)
    return found - {pid}


def modules_below(pid):
    """The warm Python below `pid`, and the children in which it runs modules."""
    return [one for one in descendants(pid) if "zygote.py" in words_of(one)]


def words_of(pid):
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


def lives(pid):
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def check_lines(quern):
    service = Service(quern)
    for line, number, said in (
            ("nonsense", None, "no JSON"),
            ("[1]", None, "an object is needed"),
            ('{"id": [1]}', None, "a text or a whole number is needed"),
            ('{"id": 1, "tusk": "x"}', 1, "unknown key 'tusk' (did you mean 'task'?)"),
            ('{"id": "a"}', "a", "'task' is missing"),
            ('{"id": 2, "task": "t"}', 2, "'source' is missing"),
            ('{"id": 3, "task": "t", "source": 5}', 3, "'source' must be text"),
            ('{"id": 4, "task": "t", "source": "", "exact": 1}', 4, "an object with 'protocol' is needed"),
            ('{"id": 5, "task": "t", "source": "", "verdict": false}', 5, "nothing is asked for"),
            ('{"id": 6, "task": "/nowhere.task.yaml", "source": ""}', 6, "/nowhere.task.yaml"),
            ('{"id": 7, "task": "t", "source": "' + "x" * ((1 << 20) + 1) + '"}', 7, "at most 1048576 are allowed"),
            ('{"id": 8, "task": "' + "x" * LONGEST_LINE + '"}', None, "at most 8388608 are allowed")):
        found, error = service.error(line)
        assert found == number and said in error, (line[:80], found, error[:200])
    service.send("")  # passed over
    # What was sent before the end of the input is answered; a last line needs no end.
    service.process.stdin.write(b'{"id": 9}')
    rest, _ = service.process.communicate(timeout=PATIENCE_S)
    assert [json.loads(line)["id"] for line in rest.splitlines()] == [9], rest
    assert service.process.returncode == 0


def check_options(quern):
    for words, said in ((["x"], "task and --serve do not go together"), (["--json"], "--json and --serve do not go together"), (["--core", "4000"], None)):
        refused = subprocess.run([quern, "eval", "--serve", *words], input=b"", capture_output=True, timeout=PATIENCE_S)
        # A core is looked for with the first task.
        assert refused.returncode == (0 if said is None else 2) and (said or "").encode() in refused.stderr, refused


def check_idle_client(quern):
    """Nobody reads any more, though the input goes on."""
    service = Service(quern)
    service.process.stdout.close()
    assert service.process.wait(PATIENCE_S) == 1


def check_client_that_dies(quern):
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "reference.py"
        task.write_text(REFERENCE)
        service = Service(quern)
        pid = service.process.pid
        exact = {"protocol": "kernelbench_exact/1", "limit_s": 3600}
        service.send(json.dumps({"id": 1, "task": str(task), "source": ENDLESS, "verdict": False, "exact": exact}))
        wait_for(lambda: len(modules_below(pid)) >= 2, "no child was started")
        below = descendants(pid)
        time.sleep(0.5)
        assert service.process.poll() is None, "it answered: the candidate is not endless"
        # Control: only the death of the client ends it; a closed input does not, since the request is still to be answered.
        service.process.stdin.close()
        time.sleep(0.5)
        assert service.process.poll() is None
        service.process.stdout.close()
        assert service.process.wait(PATIENCE_S) == 1
        wait_for(lambda: not any(map(lives, below)), f"children live on: {below}")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    quern = sys.argv[1]
    check_options(quern)
    check_lines(quern)
    check_idle_client(quern)
    if "endless" in sys.argv[2:]:
        check_client_that_dies(quern)
    print("all passed", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    main()
