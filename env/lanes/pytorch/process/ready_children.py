"""Children of zygote.py from their fork to their first command.

A child stands when it is forked, has joined its control group and its namespaces, and has touched the pages that a first
operator needs. There it waits until it is asked for, on a socket that the warm Python alone has the other end of. Then it
learns the candidate's files and its core, puts on the rest of the sandbox, and serves. It may wait because nothing of a
candidate exists in it: it has the memory of the warm Python, which never ran a text. Its sandbox is not complete while it
waits: which files it shows cannot be changed later. It is complete before the evaluator is told its number, so before any
text can run.

Every child goes this way, one that nobody forked ahead, too: the processes of reference and candidate are alike.

A child with a GPU is locked in before it stands: the threads of its context have what the thread has that starts them. It
is shown a folder of its own in the place of the candidate's files. Before it serves, it can start no thread any more.
"""

import dataclasses
import json
import os
import signal
import socket

# Above what it takes on a loaded machine. All that one question can wait for is below the 25 seconds that the evaluator
# waits for its answer (usual_answer_limit): two children that stand still, one in the making, and a fresh one.
READY_WITHIN_S, READY_WITH_GPU_WITHIN_S = 4, 8
LOCKED_IN_WITHIN_S = 1.5
MOST_MESSAGE = 65536


class ChildIsGone(OSError):
    """It ended, or says nothing, before it was locked in."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a child has from its fork on. One with other limits is another child."""

    memory_bytes: int
    work_bytes: int
    required: bool
    compilers: bool  # of a reference with a GPU: it may start compilers and see them
    profiled: bool  # of a child with a GPU: it is asked for evidence

    @classmethod
    def of(cls, asked):
        return cls(*(asked[field.name] for field in dataclasses.fields(cls)))


class ReadyChild:
    """One child in the eyes of the warm Python, which reaps it."""

    def __init__(self, pid, control, limits, folder=None):
        self.pid, self.control, self.limits, self.folder = pid, control, limits, folder

    def hear(self, seconds):
        """Waits for its next message. ChildIsGone: there is none. OSError: it says what failed."""
        self.control.settimeout(seconds)
        try:
            message = self.control.recv(MOST_MESSAGE)
        except OSError as e:
            raise ChildIsGone(f"child {self.pid} says nothing: {e}") from e
        if not message:
            raise ChildIsGone(f"child {self.pid} ended before it was asked for")
        problem = json.loads(message)["problem"]
        if problem is not None:
            raise OSError(problem)

    def wait_until_ready(self):
        self.hear(READY_WITHIN_S if self.folder is None else READY_WITH_GPU_WITHIN_S)

    def hand_over(self, asked, channel):
        """Gives it what it is for. When this returns, it is locked in, and this side has nothing of it any more."""
        try:
            socket.send_fds(self.control, [json.dumps(asked).encode()], [channel])
        except OSError as e:
            raise ChildIsGone(f"child {self.pid} cannot be asked: {e}") from e
        self.hear(LOCKED_IN_WITHIN_S)
        self.control.close()
        if self.folder is not None and asked["core"] >= 0:
            try:
                # The thread that calls models alone. Its filter lets nobody inside do that any more.
                os.sched_setaffinity(self.pid, {asked["core"]})
            except OSError:
                pass  # of another user, and this one is not root: times are less even

    def kill(self):
        """Its end is seen when it is reaped. Its number is its own until then."""
        self.control.close()
        os.kill(self.pid, signal.SIGKILL)


def touch_pages():
    """What a fork leaves to the first use: pages that an operator writes are copied here. Nothing is drawn, so that random
    numbers of a module are those of every child."""
    import torch
    with torch.no_grad():
        left = torch.ones(64, 64)
        torch.nn.functional.linear(left, left).mul_(2).sum().item()
        left.to(torch.float64).to(torch.bfloat16)


def use_work_folder():
    here = os.getcwd()
    # Of Inductor the folder itself: torch makes it as soon as it is imported, and here nobody makes folders.
    os.environ.update(HOME=here, TMPDIR=here, TRITON_CACHE_DIR=os.path.join(here, "triton"), TORCHINDUCTOR_CACHE_DIR=here)


def use_compilers():
    """Of a reference that torch.compile is used on. One compiler at a time: a pool would be processes that wait."""
    for name in ("LD_PRELOAD", "PYTORCH_NVML_BASED_CUDA_CHECK"):  # what the warm Python has for itself
        os.environ.pop(name, None)
    os.environ.update(PATH="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", TORCHINDUCTOR_COMPILE_THREADS="1")


def wait_and_serve(library, control, limits, own_files, group):
    """In the child, right behind the fork. The status to exit with. `control`: its end of the warm Python's socket."""
    import module_child
    import module_device
    import module_handlers
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    nothing = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    own = control.fileno()

    def tell(problem):
        os.write(own, json.dumps({"problem": problem}).encode())

    memory, layers = None, 0
    try:
        spec = dataclasses.asdict(limits) | {"keep": [own], "gpu": library.gpu}
        if library.gpu is None:
            library.begin(spec | {"read_only": own_files}, group)
        else:
            shown = own_files + [library.gpu["library"]] + (library.gpu["compilers"] if limits.compilers else [])
            library.begin(spec | {"read_only": shown}, group)
            layers = library.complete({"core": -1, "read_only": [], "keep": [own]})
            use_work_folder()
            memory = module_device.DeviceMemory(library.window)
            memory.open()
            if limits.profiled:
                memory.begin_profile()
            if limits.compilers:
                use_compilers()  # which are processes, that the lock below forbids
            else:
                library.lock()
        touch_pages()
        tell(None)
        message, channels, _, _ = socket.recv_fds(control, MOST_MESSAGE, 1)
        if not message or len(channels) != 1:
            return 0  # the warm Python is gone
        asked, channel = json.loads(message), channels[0]
        if library.gpu is not None:
            # Its own folder has them.
            asked.update({kind: own_files[-1] for kind in ("extensions", "kernels") if asked[kind]})
        if library.gpu is None:
            layers = library.complete({"core": asked["core"], "read_only": asked["read_only"], "keep": [own, channel]})
            use_work_folder()
    except (OSError, RuntimeError) as e:
        tell(str(e)[:400])
        return 1
    child = module_child.Child(layers, asked, memory)
    # The last that it has in common with the warm Python, before it can be asked to load a text.
    tell(None)
    os.close(control.detach())
    return module_handlers.serve(library.so, channel, child)
