"""The parent of the Python processes of lane `pytorch`: `zygote.py LIBRARY`, started by an evaluator.

It imports torch and what candidates import most, and never runs a text of theirs. On descriptor 3 it is asked for
children (JSON, with the child's end of a socket pair) and answers with their numbers; it is asked, too, to end one and
how it ended. A child puts the sandbox on
itself, tells which layers are on, and serves commands (module_handlers.py) until the evaluator is gone. Every child is
for one text. No CUDA here: a context does not survive a fork.

When it is ready it says what this Python has.
"""

import ctypes
import gc
import importlib.util
import json
import logging
import os
import signal
import select
import socket
import sys
import sysconfig
import time

CONTROL = 3
ROOM = 480
# A child's processes and threads together: one, and what LibTorch may start where no filter forbids it.
MOST_PROCESSES = 4
MOST_ENDS = 64


class Library:
    """libquern_python.so (python_part.h)."""

    def __init__(self, path):
        self.so = ctypes.CDLL(path)
        self.so.quern_python_group.restype = ctypes.c_void_p

    def check(self, function, *arguments):
        problem = ctypes.create_string_buffer(ROOM)
        if function(*arguments, problem, ctypes.c_int32(ROOM)) != 0:
            raise OSError(problem.value.decode(errors="replace"))

    def probe(self):
        self.check(self.so.quern_python_probe)

    def group(self, memory_bytes):
        return self.so.quern_python_group(ctypes.c_int64(memory_bytes), ctypes.c_int32(MOST_PROCESSES))

    def ran_out(self, group):
        return bool(self.so.quern_python_group_ran_out(ctypes.c_void_p(group)))

    def end_group(self, group):
        self.so.quern_python_group_end(ctypes.c_void_p(group))

    def enter(self, spec, group):
        layers = ctypes.c_uint32(0)
        self.check(self.so.quern_python_enter, json.dumps(spec).encode(), ctypes.c_void_p(group), ctypes.byref(layers))
        return layers.value


def own_folders():
    """Where this Python and the modules that it can import lie: what a child may read of the host's files."""
    places = {sys.prefix, *(p for p in sys.path[1:] if p), *sysconfig.get_paths().values()}
    places |= {os.path.realpath(place) for place in places}
    whole = ("/", "/usr", "/usr/local")  # of the system's Python its modules alone
    return sorted(place for place in places if place.startswith("/") and place not in whole and os.path.exists(place))


def warm_up(torch):
    """What a first operator costs is paid here. One thread: a process with a pool of them cannot be forked."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with torch.no_grad():
        torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().item()
        torch.ones(2, 4, dtype=torch.float64).to(torch.bfloat16)


def import_more():
    """Modules that candidates import and that take long, where they are installed."""
    logging.disable(logging.WARNING)  # that there is no device is meant
    for name in ("torch.utils.cpp_extension", "triton", "triton.language", "numpy", "einops"):
        try:
            __import__(name)
        except ImportError:
            pass
    logging.disable(logging.NOTSET)


class Zygote:
    def __init__(self, library):
        self.library = library
        self.read_only = own_folders() + [os.path.dirname(os.path.abspath(__file__))]
        self.children = {}
        self.ends = {}  # of the last ones, whom somebody may still ask about

    def reap(self):
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            group, ran_out = self.children.pop(pid, None), False
            if group:
                ran_out = self.library.ran_out(group)
                self.library.end_group(group)
            self.ends[pid] = {"code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
                              "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "out_of_memory": ran_out}
            while len(self.ends) > MOST_ENDS:
                del self.ends[next(iter(self.ends))]

    def end(self, pid):
        """How a child ended. One that lives is given a moment to end by itself, and killed."""
        killed = False
        for attempt in range(500):
            self.reap()
            if pid in self.ends:
                return self.ends.pop(pid) | {"killed": killed}
            if pid not in self.children:
                return {}
            if attempt == 25:
                os.kill(pid, signal.SIGKILL)
                killed = True
            time.sleep(0.002)
        return {}

    def fork(self, asked, channel):
        spec = {
            "socket": channel, "core": asked["core"], "memory_bytes": asked["memory_bytes"], "work_bytes": asked["work_bytes"],
            "required": asked["required"], "read_only": self.read_only + asked["read_only"],
        }
        group = self.library.group(asked["memory_bytes"])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                status = self.live(spec, group, asked)
            finally:
                os._exit(status)
        self.children[pid] = group
        return pid

    def live(self, spec, group, asked):
        """In the child: from here on nothing but the sandbox and one text's commands."""
        import module_child
        import module_handlers
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        nothing = os.open("/dev/null", os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nothing, standard)
        try:
            layers, problem = self.library.enter(spec, group), None
        except OSError as e:
            layers, problem = 0, str(e)
        here = os.getcwd()
        # Of Inductor the folder itself: torch makes it as soon as it is imported, and here nobody makes folders.
        os.environ.update(HOME=here, TMPDIR=here, TRITON_CACHE_DIR=os.path.join(here, "triton"), TORCHINDUCTOR_CACHE_DIR=here)
        return module_handlers.serve(self.library.so, spec["socket"], module_child.Child(layers, problem, asked))


def serve(path):
    """Answers on descriptor 3 until the evaluator closes it."""
    # Ctrl-C is for the evaluator, which finishes what it has begun; this process ends with its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    library = Library(path)
    library.probe()
    import torch
    # Children have them, and no file of these folders is read later.
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build"))
    import built_extensions  # noqa: F401
    import extension_recorder  # noqa: F401
    import kernelbench_exact  # noqa: F401
    import module_child  # noqa: F401
    import module_handlers  # noqa: F401
    import_more()
    warm_up(torch)
    control = socket.socket(fileno=CONTROL)
    zygote = Zygote(library)
    # A child that ended wakes the loop.
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()
    control.send(json.dumps(facts(torch)).encode())
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            try:
                os.read(woken, 4096)
            except BlockingIOError:
                pass
            zygote.reap()
        if control not in ready:
            continue
        message, fds, flags, _ = socket.recv_fds(control, 65536, 1)
        if not message or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            return
        asked = json.loads(message)
        if "end" in asked:
            answer = zygote.end(asked["end"])
        elif len(fds) != 1:
            return
        else:
            try:
                answer = {"pid": zygote.fork(asked, fds[0])}
            except OSError as e:
                answer = {"pid": -1, "error": str(e)}
        for fd in fds:
            os.close(fd)
        control.send(json.dumps(answer).encode())


def facts(torch):
    """What decides what a module computes here and how fast."""
    found = {"torch": torch.__version__, "python": sys.version.split()[0]}
    for name in ("triton", "numpy", "einops"):
        if name in sys.modules:
            found[name] = sys.modules[name].__version__
    for name in ("cutlass", "tilelang"):
        if importlib.util.find_spec(name) is not None:
            found[name] = "there"
    return found


def main():
    try:
        serve(sys.argv[1])
    except (ConnectionError, BrokenPipeError):
        pass  # the evaluator left without its answer


if __name__ == "__main__":
    main()
