"""Commands of the evaluator, as python_part.h hands them to Python, and what became of them."""

import ctypes
import importlib.util
import os
import traceback

import torch

from module_tensors import DONE, FAILED, NO_MEMORY, NOT_HERE, Unusable, WrongResult
from refused_compile import NotHere

ROOM = 480  # of a text that says what failed, its end included
OURS = os.path.dirname(os.path.abspath(__file__))


class Tensor(ctypes.Structure):
    """quern_python_tensor of python_part.h."""

    _fields_ = [("address", ctypes.c_uint64), ("stride", ctypes.c_uint64), ("type", ctypes.c_uint32),
                ("rank", ctypes.c_uint32), ("shape", ctypes.c_int64 * 8)]


Text = ctypes.POINTER(ctypes.c_char)
LOAD = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, Text)
ASK = ctypes.CFUNCTYPE(ctypes.c_int32, Text, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64,
                       ctypes.POINTER(ctypes.c_uint64), Text)
PLAN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Tensor), ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, Text)
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, Text)
IMPORT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64,
                          ctypes.POINTER(ctypes.c_uint64), Text)
DELIVER = ctypes.CFUNCTYPE(ctypes.c_int32, Text)


class Handlers(ctypes.Structure):
    """quern_python_handlers of python_part.h."""

    _fields_ = [("load", LOAD), ("ask", ASK), ("plan", PLAN), ("run", RUN), ("import_region", IMPORT), ("deliver", DELIVER), ("wake", DELIVER)]


def encoded(text):
    """UTF-8 of any text, of halves of pairs of surrogates, too."""
    return text.encode(errors="backslashreplace")


def shortened(told, room):
    """Bytes of a text, at most `room`: its first line, cut to half of that, and its end."""
    if len(told) <= room:
        return told.decode(errors="ignore")
    gap = " [...] "
    first = told.split(b"\n", 1)[0][:room // 2].decode(errors="ignore")
    return first + gap + told[len(encoded(first + gap)) - room:].decode(errors="ignore")


def words_of(problem):
    """Type, message and end of an exception, with the line of the module where it came up."""
    told = encoded("".join(traceback.format_exception_only(type(problem), problem)).strip())
    lines = [frame for frame in traceback.extract_tb(problem.__traceback__)
             if frame.name and os.path.dirname(frame.filename) != OURS and not frame.filename.startswith("<frozen importlib")]
    where = next((f" (line {frame.lineno}, in {frame.name})" for frame in reversed(lines) if "/torch/" not in frame.filename), "")
    return shortened(told, ROOM - 1 - len(encoded(where))) + where


def folders_of(torch_parts, modules):
    return tuple(os.path.join(folder, "") for folder in (
        *(os.path.join(os.path.dirname(torch.__file__), part) for part in torch_parts),
        *(place for name in modules for spec in [importlib.util.find_spec(name)]
          if spec is not None for place in spec.submodule_search_locations or ())))


# What needs a compiler or a GPU; kept here, out of reach of what a module does to torch. Errors of torch.cuda and of Triton
# are a module's own where there is a GPU.
NEED_A_HOST = folders_of(("_dynamo", "_inductor", "cuda"), ("triton", "cutlass", "tilelang"))
NEED_A_COMPILER = folders_of(("_dynamo", "_inductor"), ("cutlass", "tilelang"))
STANDARD, PACKAGES = os.path.join(os.path.dirname(os.__file__), ""), f"{os.sep}site-packages{os.sep}"
NOT_INSTALLED = ("triton", "cutlass", "tilelang")
OF_MEMORY = (MemoryError, torch.OutOfMemoryError)
MOST_IN_CHAIN = 16


def came_up_in(problem):
    """The file of the innermost frame outside of Python's own library; empty: there is none."""
    found, at = "", problem.__traceback__
    while at is not None:
        name = at.tb_frame.f_code.co_filename
        if PACKAGES in name or not name.startswith((STANDARD, "<frozen ")):
            found = name
        at = at.tb_next
    return found


def came_from_what_is_not_here(problem, not_here):
    """Whether an exception, or one that it was raised from, came up in one of the folders `not_here`, is the import of what
    is not installed, or says so itself. Where it passed through does not count: a module's own error in a compiled function
    is its own."""
    for _ in range(MOST_IN_CHAIN):
        if problem is None:
            return False
        if isinstance(problem, NotHere):
            return True
        if isinstance(problem, ImportError) and str(problem.name).split(".", 1)[0] in NOT_INSTALLED:
            return True
        if came_up_in(problem).startswith(not_here):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def guarded(problem, work, refused, not_here):
    """(outcome, result) of a piece of work; a text in `problem` where it fails. `refused`: how often this process was
    refused memory. `not_here`: folders of what this process cannot run."""
    before, outcome = refused(), FAILED
    try:
        return DONE, work()
    except WrongResult as e:
        outcome, text = e.outcome, str(e)
    except Unusable as e:
        text = str(e)
    except BaseException as e:  # SystemExit, too: a module that ends itself has failed
        text = "an exception that cannot be told"
        try:
            # torch's allocator of the CPU raises a plain RuntimeError, and so may anybody.
            if isinstance(e, OF_MEMORY) or type(e) is RuntimeError and refused() > before:
                outcome = NO_MEMORY
            elif came_from_what_is_not_here(e, not_here):
                outcome = NOT_HERE
            text = words_of(e)
        except BaseException:  # an exception of the module's own, whose parts may be anything
            pass
    told = encoded(text)[:ROOM - 1]
    ctypes.memmove(problem, told + b"\0", len(told) + 1)
    return outcome, None


def serve(library, channel, child):
    """Serves commands of `channel` with `child` (module_child.Child) until the evaluator is gone."""
    refused = library.quern_python_refused_memory
    refused.restype = ctypes.c_uint64

    not_here = NEED_A_COMPILER if child.memory.is_lent else NEED_A_HOST

    def guard(said, work):
        return guarded(said, work, refused, not_here)

    def load(path, said):
        return guard(said, lambda: child.load(path.decode()))[0]

    def ask(text, size, sheet, room, value, said):
        outcome, answered = guard(said, lambda: child.ask(ctypes.string_at(text, size), sheet, room))
        value[0] = answered or 0
        return outcome

    def plan(tensors, inputs, outputs, in_f64, said):
        return guard(said, lambda: child.plan(tensors[:inputs + outputs], inputs, outputs, in_f64))[0]

    def run(begin, end, said):
        return guard(said, lambda: child.run(begin, end))[0]

    def import_region(region, fd, size, hint, writable_hint, address, said):
        outcome, at = guard(said, lambda: child.import_region(region, fd, size, hint, writable_hint))
        address[0] = at or 0
        return outcome

    def deliver(said):
        return guard(said, child.deliver_again)[0]

    def wake(said):
        return guard(said, child.memory.wake)[0]

    handlers = Handlers(LOAD(load), ASK(ask), PLAN(plan), RUN(run))  # a null function: the process cannot do that
    if child.memory.is_lent:
        handlers.import_region, handlers.deliver, handlers.wake = IMPORT(import_region), DELIVER(deliver), DELIVER(wake)
    return library.quern_python_serve(ctypes.c_int32(channel), ctypes.byref(handlers))
