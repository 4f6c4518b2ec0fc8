"""A process's side of a GPU: its context, the evaluator's device memory, and what differs from a process on a core.

The window library (libquern_cuda.so, env/device/window_part.h) maps memory of the evaluator, inputs for reading only. It is
lent before a candidate is loaded. Nothing here is trusted by the evaluator: it compares in a process of its own, and its own
clock counts.
"""

import ctypes
import os

import torch
from torch.overrides import TorchFunctionMode

import module_evidence
from module_repeats import host_generators
from module_tensors import DTYPES, Unusable, view as host_view

ROOM = 400
# What torch may keep of the device's memory that nothing uses: to give it back and to take it again asks the driver, which
# makes contexts for others meanwhile and answers late.
MOST_KEPT = 64 << 20
AT_HAND = 32 << 20  # of that, taken before anybody asks
# The same of a reference's processes behind a row, weights or a calibration, which the next one takes again: at most, and one part
# in so many of the device. Both together stay below moved_by_reference (pytorch_device_state.hpp) then.
MOST_KEPT_BETWEEN_CALLS, KEPT_OF_DEVICE = 3 << 29, 32
WARM_UPS = 3  # of a model before its launches are captured: libraries have chosen their kernels by then
INPUTS = 0  # QUERN_INPUTS of env/device/window_part.h


class HostMemory:
    """Of a process on a core: tensors lie in files that are mapped."""

    device = torch.device("cpu")
    is_lent = False
    kept_between_calls = 0
    view = staticmethod(host_view)

    def wait(self):
        pass

    def give_back(self, most=0):
        pass

    def state_of_others(self):
        """Of all generators but torch's for this device."""
        return host_generators()


class DeviceMemory:
    """Of a process with a GPU. The device has number 0 in its sandbox, which shows no other."""

    device = torch.device("cuda", 0)
    is_lent = True  # regions of memory are, by the evaluator
    kept_between_calls = MOST_KEPT
    profile = None

    def __init__(self, library):
        self.library, self.window = library, ctypes.c_void_p()
        self.graph_memory = None
        library.quern_window_address.restype = ctypes.c_uint64
        library.quern_window_problem.restype = ctypes.c_char_p

    def open(self):
        """Makes the context, and runs what most modules begin with, so that no candidate waits for it."""
        problem = ctypes.create_string_buffer(ROOM)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the warm Python has none
        torch.cuda.init()
        # What torch.cuda.synchronize() calls; kept here, out of reach of what a module does to torch.
        self.waits = torch._C._cuda_synchronize
        # The default stream: the one that torch works on.
        if self.library.quern_window_open(ctypes.c_int32(0), ctypes.c_int32(0), ctypes.byref(self.window), problem, ROOM):
            raise OSError(problem.value.decode(errors="replace"))
        with torch.no_grad():
            # Each kind of kernel is loaded when it is first launched, in some 10 to 150 ms. These are what models are made by,
            # weights are compared by, and most candidates call. Products in half precision are left to those that use them.
            left = torch.ones(64, 64, device=self.device)
            torch.nn.functional.linear(left, left).mul_(2).add_(left).relu_().sum().item()
            left.uniform_()
            torch.equal(left.view(torch.int32), left.clone().view(torch.int32))
        of_device = torch.cuda.get_device_properties(self.device).total_memory
        self.kept_between_calls = min(MOST_KEPT_BETWEEN_CALLS, of_device // KEPT_OF_DEVICE)
        self.scratch = torch.zeros(64, device=self.device)
        torch.empty(AT_HAND, dtype=torch.uint8, device=self.device)
        self.waits()

    def begin_profile(self):
        """Of a process that is asked for evidence. It starts threads: before the process is locked in."""
        self.profile = module_evidence.Profile()

    def wake(self):
        """Launches and waits, as a call does, so that the next one finds the processor's caches with what it passes through."""
        with torch.no_grad():
            self.scratch.add_(1).mul_(0.5)
        self.waits()

    def drawing(self):
        """Tensors that are made within it, and say nothing of a device, are made on this one."""
        return self.device

    def state_on_core(self):
        """Of the generator of a core: it changes with each number that is drawn there."""
        return torch.get_rng_state().tolist()

    def state_of_others(self):
        """As HostMemory has it."""
        return host_generators(), self.state_on_core()

    def import_region(self, region, fd, size, hint, _):
        """Address at which kernels find the region. Inputs cannot be written here, at no address."""
        named = self.window, ctypes.c_int32(region), ctypes.c_int32(fd), ctypes.c_uint64(size), ctypes.c_uint64(hint)
        if region == INPUTS:
            refused = self.library.quern_window_import_to_read(*named)
        else:
            refused = self.library.quern_window_import(*named, ctypes.c_uint64(0))
        if refused:
            raise Unusable(self.library.quern_window_problem(self.window).decode(errors="replace"))
        return self.library.quern_window_address(self.window, ctypes.c_int32(region))

    def view(self, address, number, shape, as_bool=False):
        """A tensor over memory of the evaluator; nothing is copied."""
        dtype, elements, strides = DTYPES[number], 1, []
        for n in reversed(shape):
            strides.insert(0, elements)
            elements *= n
        if elements == 0:
            return torch.empty(shape, dtype=torch.bool if as_bool else dtype, device=self.device)
        storage = torch._C._construct_storage_from_data_pointer(address, self.device, elements * dtype.itemsize)
        tensor = torch.empty(0, dtype=dtype, device=self.device).set_(storage, 0, tuple(shape), tuple(strides))
        return tensor.view(torch.bool) if as_bool else tensor

    def wait(self):
        self.waits()

    def capture(self, work):
        """A CUDA graph of what `work` launches: (replay, its results, which each replay writes anew). The graphs of a process
        share what they compute in, since they are replayed one after the other."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        self.waits()
        if self.graph_memory is None:
            self.graph_memory = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.graph_memory):
            results = work()
        return graph.replay, results

    def give_back(self, most=MOST_KEPT):
        """What torch keeps of memory that nothing uses any more, where it is more than this."""
        known = torch.cuda.memory_stats_as_nested_dict(self.device)
        if known["reserved_bytes"]["all"]["current"] - known["allocated_bytes"]["all"]["current"] > most:
            torch.cuda.empty_cache()


class Tf32Convolutions(TorchFunctionMode):
    """Convolutions whose operands in f32 have the ten bits of TF32: what torch's settings allow a GPU to compute. `change`: cut,
    since its matrix units ignore the other bits, or rounded, as many kernels do before. `used`: there was one."""

    NAMES = frozenset(f"conv{transposed}{axes}d" for transposed in ("", "_transpose") for axes in (1, 2, 3))

    def __init__(self, change):
        super().__init__()
        self.change, self.used = change, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in self.NAMES:
            self.used = True
            args = tuple(map(self.changed, args))
            kwargs = {name: self.changed(value) for name, value in (kwargs or {}).items()}
        return func(*args, **(kwargs or {}))

    def changed(self, value):
        return self.change(value) if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    @staticmethod
    def cut(value):
        return (value.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)

    @staticmethod
    def rounded(value):
        return ((value.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def scales(outputs, wide):
    """Of each output of a reference: what calibration.hpp calls result_scale, as a dictionary. `wide`: the same results in
    f64, or None. Parts of a tensor at a time, since f64 of all of it may not fit."""
    found = []
    for i, output in enumerate(outputs):
        scale = {"rms": 0.0, "worst_error": 0.0, "finite": True, "agrees": True}
        found.append(scale)
        if not output.is_floating_point() or output.numel() == 0:
            continue
        flat, flat_wide = output.reshape(-1), None if wide is None else wide[i].reshape(-1)
        squares, count, step = 0.0, 0, 1 << 26
        for at in range(0, flat.numel(), step):
            y = flat[at:at + step].double()
            is_finite = torch.isfinite(y)
            scale["finite"] &= bool(is_finite.all())
            squares += float(torch.where(is_finite, y, 0).square().sum())
            count += int(is_finite.sum())
            if flat_wide is not None:
                y64 = flat_wide[at:at + step]
                both = is_finite & torch.isfinite(y64)
                alike = both | (torch.isnan(y) & torch.isnan(y64)) | (torch.isinf(y) & (y == y64))
                scale["agrees"] &= bool(alike.all())
                scale["worst_error"] = max(scale["worst_error"], float(torch.where(both, (y - y64).abs(), 0).max()))
        if count:
            scale["rms"] = (squares / count) ** 0.5
    return found
