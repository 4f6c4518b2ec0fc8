"""The parent of the Python processes of lane `pytorch`: `zygote.py LIBRARY [GPU]`, started by an evaluator.

GPU is JSON, for processes with a GPU: {"library", "devices", "read_only", "compilers", "folders"}. `library` is libquern_cuda.so, the
next two are those of env::gpu_access, `compilers` is what a child is shown, too, that may start them, and `folders` is where each child gets a folder of its own, which its sandbox shows:
the evaluator puts the candidate's files there.

It imports torch and what candidates import most, and never runs a text of theirs. On descriptor 3 it is asked for
children, to have some stand ready, to end one and how it ended:

  {"core", "memory_bytes", "work_bytes", "required", "compilers", "profiled", "classes", "extensions", "kernels", "read_only"} with the child's end of a socket
                        pair: {"pid", "stood_ready", "folder"}; {"pid": -1, "error"}
  {"prefork": N, "below": N, "memory_bytes", "work_bytes", "required", "compilers", "profiled"}: no answer
  {"ready": true}: {"ready": [PID, ...]}, once all that were ordered stand
  {"making": true}: {"making": N}, how many of those do not stand yet; at once
  {"still": BOOL}: the same; those that are in making stand still from then on, or go on
  {"end": PID}: {"code", "signal", "out_of_memory", "killed"}; {}: nobody knows it

A child (ready_children.py) puts the sandbox on itself, tells which layers are on, and serves commands (module_handlers.py)
until the evaluator is gone. Every child is for one text. No CUDA here: a context does not survive a fork. A child with a GPU
makes its context when it is forked, behind its sandbox, and stands when that is warm.

When this process is ready it says what this Python has.
"""

import ctypes
import gc
import glob
import importlib.util
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import sysconfig
import tempfile
import time

from ready_children import ChildIsGone, Limits, ReadyChild, wait_and_serve

CONTROL = 3
ROOM = 480
# A child's processes and threads together: one, and what LibTorch may start where no filter forbids it; or the driver's.
MOST_PROCESSES, MOST_WITH_GPU, MOST_WITH_COMPILERS = 4, 64, 256
MOST_ENDS = 64


class Library:
    """libquern_python.so (python_part.h)."""

    def __init__(self, path, gpu=None):
        self.so = ctypes.CDLL(path)
        self.gpu = gpu
        self.so.quern_python_group.restype = ctypes.c_void_p

    def check(self, function, *arguments):
        problem = ctypes.create_string_buffer(ROOM)
        if function(*arguments, problem, ctypes.c_int32(ROOM)) != 0:
            raise OSError(problem.value.decode(errors="replace"))

    def probe(self):
        self.check(self.so.quern_python_probe)

    def group(self, limits):
        most = MOST_PROCESSES if self.gpu is None else MOST_WITH_COMPILERS if limits.compilers else MOST_WITH_GPU
        return self.so.quern_python_group(ctypes.c_int64(limits.memory_bytes), ctypes.c_int32(most))

    def lock(self):
        self.check(self.so.quern_python_lock)

    def ran_out(self, group):
        return bool(self.so.quern_python_group_ran_out(ctypes.c_void_p(group)))

    def end_group(self, group):
        self.so.quern_python_group_end(ctypes.c_void_p(group))

    def begin(self, spec, group):
        self.check(self.so.quern_python_begin, json.dumps(spec).encode(), ctypes.c_void_p(group))

    def complete(self, spec):
        layers = ctypes.c_uint32(0)
        self.check(self.so.quern_python_complete, json.dumps(spec).encode(), ctypes.byref(layers))
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


def warm_up_without_memory(torch):
    """What first operators on tensors without memory cost: torch imports some 900 modules then, which take seconds; some of
    them for operators that it decomposes. And what learns a candidate's Triton kernels."""
    with torch.device("meta"):
        torch.nn.functional.linear(torch.rand(2, 4), torch.rand(4, 4))
        torch.nn.functional.batch_norm(torch.rand(2, 4), torch.zeros(4), torch.ones(4), training=True)
    # An import has asked where temporary files go; children have a folder of their own.
    tempfile.tempdir = None
    os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    if "triton" in sys.modules:
        import triton_recorder  # noqa: F401


def import_more():
    """Modules that candidates import and that take long, where they are installed."""
    logging.disable(logging.WARNING)  # that there is no device is meant
    for name in ("torch.utils.cpp_extension", "triton", "triton.language", "numpy", "einops"):
        try:
            __import__(name)
        except ImportError:
            pass
    logging.disable(logging.NOTSET)


def load_cudnn(torch):
    """The parts of cuDNN, which it would load at a child's first convolution: a quarter of what that takes. They ask the driver
    for nothing yet. Where torch has them elsewhere, each child loads them."""
    for part in glob.glob(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "nvidia", "cudnn", "lib", "libcudnn*.so.*")):
        try:
            ctypes.CDLL(part)
        except OSError:
            pass


class Zygote:
    def __init__(self, library, control):
        self.library, self.control = library, control
        self.read_only = own_folders() + [os.path.dirname(os.path.abspath(__file__))]
        self.children = {}  # number -> (group, folder), of all that were forked
        self.ready = []  # those of them that nobody has asked for yet, the oldest first
        self.begun = []  # those that do not stand yet
        self.ends = {}  # of the last ones, whom somebody may still ask about

    def reap(self):
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            for these in (self.ready, self.begun):
                for child in [one for one in these if one.pid == pid]:
                    these.remove(child)
                    child.control.close()
            (group, folder), ran_out = self.children.pop(pid, (None, None)), False
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
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

    def close(self):
        """Ends what is left. Their groups would stay in the kernel until the next start of an evaluator sweeps them."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        # In the order of their ends: one that takes long keeps none of the others.
        while self.children:
            pid, _ = os.waitpid(-1, 0)
            group, _ = self.children.pop(pid, (None, None))
            if group:
                self.library.end_group(group)

    def start(self, limits):
        """A child that stands; it is not among the ready ones. OSError: why there is none."""
        return self.standing(self.begin(limits))

    def standing(self, child):
        try:
            child.wait_until_ready()
        except OSError:
            child.kill()
            raise
        return child

    def begin(self, limits):
        """A child that is forked and does not stand yet."""
        group, folder = self.library.group(limits), self.new_folder()
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = os.fork()
        except OSError:
            self.library.end_group(group)
            raise
        if pid == 0:
            status = 1
            try:
                for other in [ours, self.control, *(one.control for one in self.ready + self.begun)]:
                    other.close()
                status = wait_and_serve(self.library, its, limits, self.read_only + ([folder] if folder else []), group)
            finally:
                os._exit(status)
        its.close()
        self.children[pid] = group, folder
        return ReadyChild(pid, ours, limits, folder)

    def new_folder(self):
        """That the sandbox of one child shows, whatever is put there later; None: its files are shown themselves."""
        if self.library.gpu is None:
            return None
        folder = tempfile.mkdtemp(dir=self.library.gpu["folders"])
        os.chmod(folder, 0o755)  # children are other users
        return folder

    def prefork(self, count, below, limits):
        """Has `count` children with these limits stand ready, if fewer than `below` do or are in making. One that cannot be
        had is missed when it is asked for."""
        for these in (self.ready, self.begun):
            for child in [one for one in these if one.limits != limits]:
                these.remove(child)
                child.kill()
        if len(self.ready) + len(self.begun) >= below:
            return
        try:
            # All at once: contexts are made side by side. The loop hears when they stand.
            while len(self.ready) + len(self.begun) < count:
                self.begun.append(self.begin(limits))
        except OSError:
            pass

    def has_news(self, child):
        """A child of `begun` has said something, or is gone."""
        self.begun.remove(child)
        try:
            self.ready.append(self.standing(child))
        except OSError:
            pass

    def wait_for_all(self):
        self.set_paused(False)
        for child in list(self.begun):
            self.has_news(child)

    def set_paused(self, still):
        """Stops those that are in making, or lets them go on. Returns when they stand: what is in a system call ends it."""
        for child in self.begun:
            os.kill(child.pid, signal.SIGSTOP if still else signal.SIGCONT)
        for child in self.begun if still else []:
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def fork(self, asked, channel):
        """A child for one text, its folder, and whether it stood ready: one that was waited for did not. One that ended while it stood is
        nobody's failure: there are others."""
        limits = Limits.of(asked)
        if self.library.gpu is None:
            self.wait_for_all()  # on a core nothing is in making when the next window begins
        for child in [one for one in self.ready if one.limits == limits]:
            self.ready.remove(child)
            try:
                child.hand_over(asked, channel)
                return child.pid, child.folder, True
            except ChildIsGone:
                child.kill()
        coming = [one for one in self.begun if one.limits == limits]
        if coming:
            self.set_paused(False)
            self.has_news(coming[0])
            if coming[0] in self.ready:
                return *self.fork(asked, channel)[:2], False
        child = self.start(limits)
        try:
            child.hand_over(asked, channel)
        except OSError:
            child.kill()
            raise
        return child.pid, child.folder, False


def serve(path, gpu, without_memory):
    """Answers on descriptor 3 until the evaluator closes it."""
    # Ctrl-C is for the evaluator, which finishes what it has begun; this process ends with its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    library = Library(path, gpu)
    library.probe()
    import torch
    # Children have them, and no file of these folders is read later.
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build"))
    import built_extensions  # noqa: F401
    import extension_recorder  # noqa: F401
    import kernelbench_exact  # noqa: F401
    import module_child  # noqa: F401
    import module_handlers  # noqa: F401
    if gpu is not None:
        library.window = ctypes.CDLL(gpu["library"])  # asks the driver for nothing yet
        load_cudnn(torch)
    import_more()
    warm_up(torch)
    if without_memory:
        warm_up_without_memory(torch)
    control = socket.socket(fileno=CONTROL)
    zygote = Zygote(library, control)
    # A child that ended wakes the loop.
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    library.so.quern_python_hear_ends_alone()
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()
    control.send(json.dumps(facts(torch)).encode())
    try:
        answer_questions(zygote, woken)
    finally:
        # However it ends: an evaluator that left without its answer, too.
        zygote.reap()
        zygote.close()


def answer_questions(zygote, woken):
    """Until the evaluator closes its socket. ConnectionError: it left without its answer. In a child this never returns."""
    control = zygote.control
    while True:
        coming = {child.control: child for child in zygote.begun}
        ready, _, _ = select.select([control, woken, *coming], [], [])
        for one in ready:
            if one in coming and coming[one] in zygote.begun:
                zygote.has_news(coming[one])
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
        if "prefork" in asked:
            zygote.reap()
            zygote.prefork(asked["prefork"], asked["below"], Limits.of(asked))
            continue
        if "end" in asked:
            answer = zygote.end(asked["end"])
        elif "still" in asked:
            zygote.set_paused(asked["still"])
            answer = {"still": asked["still"]}
        elif "making" in asked:
            zygote.reap()
            answer = {"making": len(zygote.begun)}
        elif "ready" in asked:
            zygote.reap()
            zygote.wait_for_all()
            answer = {"ready": [child.pid for child in zygote.ready]}
        elif len(fds) != 1:
            return
        else:
            try:
                pid, folder, stood_ready = zygote.fork(asked, fds[0])
                answer = {"pid": pid, "stood_ready": stood_ready, "folder": folder or ""}
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
        serve(sys.argv[1], **json.loads(sys.argv[2]))
    except (ConnectionError, BrokenPipeError):
        pass  # the evaluator left without its answer
    # The evaluator waits for this end, and modules have nothing to put in order.
    os._exit(0)


if __name__ == "__main__":
    main()
