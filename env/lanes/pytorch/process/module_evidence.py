"""What a process tells of how its model computes: the kernels of a call, its buffers, builds in calls.

Told by a process that runs the candidate, which may forge all of it: for reports and for a suite's policy. The evaluator
compares and times elsewhere.

A profile begins before the process is locked in, since the profiler starts threads, and ends with the question. It has
everything that ran meanwhile: marks, a kernel that hardly any module launches, stand before and behind the calls that count.
"""

import torch
import torch.autograd.profiler as autograd_profiler
import torch.profiler

from module_tensors import Unusable, flattened

CALLS = 2
MOST_NAMES, LONGEST_NAME, MOST_REASON = 400, 256, 400
MARK = "nextafter"
GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")


class Unknown(RuntimeError):
    """Why kernels are not known."""


class Profile:
    """One for a process, begun before it has a candidate."""

    def __init__(self, device="cuda"):
        # Kept here, out of reach of what a module does to torch.
        self.mark_by, self.device = torch.nextafter, torch.device(device)
        self.problem, self.profile, on_gpu = None, None, self.device.type == "cuda"
        self.on_device = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
        try:
            if on_gpu and torch.profiler.ProfilerActivity.CUDA not in torch.profiler.supported_activities():
                raise Unknown("this torch cannot profile the device: it has no CUPTI")
            # torch.profiler.profile would do the same, and import some 900 modules.
            self.profile = autograd_profiler.profile(use_cpu=not on_gpu, use_device="cuda" if on_gpu else None, use_kineto=True)
            if on_gpu and self.profile.use_device is None:
                raise Unknown("torch does not profile the device: to torch.cuda.is_available there is none")
            self.profile.__enter__()
            self.scratch = torch.zeros(1, device=self.device)
        except Exception as e:  # whatever a profiler raises, there is none
            self.problem = str(e) if isinstance(e, Unknown) else f"the profiler does not start: {e}"

    def mark(self):
        if self.problem is None:
            self.mark_by(self.scratch, self.scratch)

    def end(self):
        """(events of the device between the marks, names of what the host asked of the device)."""
        if self.problem is not None:
            raise Unknown(self.problem)
        self.profile.__exit__(None, None, None)
        events = self.profile.kineto_results.events()
        of_device = sorted((one for one in events if one.device_type() == self.on_device), key=lambda one: one.start_ns())
        marks = [one for one in of_device if MARK in one.name()]
        if len(marks) != 2:
            raise Unknown(f"{len(marks)} marks in the profile, two were made" if marks else "the profiler saw no kernel")
        begin, end = marks[0].start_ns(), marks[1].start_ns()
        between = [one for one in of_device if begin < one.start_ns() < end]
        # Of the whole profile: what the host asks has no mark of its own.
        asked = [one.name() for one in events if one.device_type() != self.on_device or self.device.type == "cpu"]
        return between, asked


def kernels_of(events, calls):
    """[name, launches, ns] of each kernel in one call, the longest first."""
    found = {}
    for one in events:
        entry = found.setdefault(one.name()[:LONGEST_NAME], [0, 0])
        entry[0] += 1
        entry[1] += one.duration_ns()
    longest = sorted(found.items(), key=lambda item: -item[1][1])[:MOST_NAMES]
    return [[name, -(-count // calls), ns // calls] for name, (count, ns) in longest]


def computed(child):
    """Results of a call of the model on the inputs of call 0, delivered nowhere."""
    given = iter(child.call_views(0)[0])
    with torch.no_grad():
        return flattened(child.model(*[next(given) if value is None else value[0] for value in child.arguments]))


def places_of(result):
    return {value.untyped_storage().data_ptr() for value in result if value.numel() > 0}


def mark(child):
    """With nothing else on the device, on whichever stream."""
    child.memory.wait()
    child.memory.profile.mark()
    child.memory.wait()


def evidence(child):
    """Of `child` (module_child.Child), whose inputs of call 0 are in place. It has made no call yet."""
    profile = child.memory.profile
    if child.model is None or profile is None:
        raise Unusable("evidence of a process that has no model or no profile")
    if child.built is not None:
        child.built.in_calls = True
    # Alive, so that a second result lies elsewhere unless the model uses its own memory again.
    first = computed(child)
    mark(child)
    for _ in range(CALLS):
        last = computed(child)
    mark(child)
    found = {"aliases_output": bool(places_of(first) & places_of(last)),
             "late_builds": child.built.late if child.built is not None else 0}
    try:
        events, asked = profile.end()
    except Unknown as e:
        return found | {"unknown": str(e)[:MOST_REASON]}
    except Exception as e:  # another torch, whose profiler answers otherwise
        return found | {"unknown": f"the profile cannot be read: {type(e).__name__}: {e}"[:MOST_REASON]}
    return found | {"kernels": kernels_of(events, CALLS), "graphs": any(name.startswith(GRAPH_LAUNCHES) for name in asked)}
