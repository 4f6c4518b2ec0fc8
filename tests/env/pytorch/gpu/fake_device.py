"""In the place of module_device.py, for tests: a device whose memory is the host's (fake_device.cpp)."""
import contextlib
import ctypes

import torch

import module_device_of_gpus
import module_evidence
from module_device_of_gpus import HostMemory, Tf32Convolutions, scales  # noqa: F401
from module_tensors import flattened, view


class DeviceMemory(module_device_of_gpus.DeviceMemory):
    device = torch.device("cpu")
    view = staticmethod(view)
    waited = 0

    def __init__(self, library):
        super().__init__(library)
        self.waits = lambda: None

    def open(self):
        problem = ctypes.create_string_buffer(400)
        if self.library.quern_window_open(0, 0, ctypes.byref(self.window), problem, 400):
            raise OSError(problem.value.decode())
        self.scratch = torch.zeros(64)

    @contextlib.contextmanager
    def drawing(self):
        """As a GPU does: other numbers than a core draws, the same each time."""
        torch.manual_seed(torch.initial_seed() ^ 1)
        torch.is_drawing = True
        try:
            yield
        finally:
            del torch.is_drawing

    def state_on_core(self):
        """A module of a test that draws as a core does says so."""
        return getattr(torch, "drawn_on_core", 0)

    def capture(self, work):
        if getattr(torch, "refuses_graphs", False):
            raise RuntimeError("operation not permitted when stream is capturing")
        results = work()

        def replay():
            for into, value in zip(flattened(results), flattened(work()), strict=True):
                into.copy_(value)
        return replay, results

    def give_back(self, most=0):
        pass

    def begin_profile(self):
        self.profile = Profile()


class Kernel:
    """An operator of the host in the place of a kernel."""

    def __init__(self, event, name):
        self.event, self.kernel = event, name
        self.start_ns, self.duration_ns = event.start_ns, event.duration_ns

    def name(self):
        return self.kernel


# What these operators launch on a device. Those of a library of the candidate's own are its kernels.
LAUNCHED = {"aten::addmm": "ampere_sgemm_32x32_sliced1x4_tn",
            "aten::clamp_min": "void at::native::vectorized_elementwise_kernel<4, at::native::launch_clamp_scalar>",
            "aten::mul": "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >"}
OWN = "mine::"


class Profile(module_evidence.Profile):
    def __init__(self):
        super().__init__("cpu")

    def end(self):
        events, asked = super().end()
        own = [Kernel(one, one.name().removeprefix(OWN) + "(float const*)") for one in events if one.name().startswith(OWN)]
        return own + [Kernel(one, LAUNCHED[one.name()]) for one in events if one.name() in LAUNCHED], asked
