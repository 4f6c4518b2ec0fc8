"""Gives a candidate the Triton kernels that were compiled for it, in a process that has a GPU and no compiler.

install(folder) replaces the driver of Triton in this process, and what Triton does where it would compile. `folder` holds
kernels.json: a list of {"key": of the launch, "cubin": FILE, "launcher": FILE, "metadata": what Triton keeps beside it}, or
{"key", "error": what Triton said}. All else, from the binding of arguments to the launch, is Triton's own.
"""
import ctypes
import hashlib
import importlib.machinery
import importlib.util
import json
import os

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import jit
from triton.runtime.errors import PTXASError

SHARED_WITHOUT_ASKING = 48 * 1024
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class LateKernel(RuntimeError):
    """Launched a kernel in a specialisation that was not launched when the candidate's launches were recorded."""


class DeviceDriver:
    """Triton's driver of this process's GPU, without the modules that Triton would compile for it."""

    launcher_cls = None

    class utils:
        @staticmethod
        def get_device_properties(device=0):
            one = torch.cuda.get_device_properties(device)
            return {"max_shared_mem": one.shared_memory_per_block_optin, "max_num_regs": one.regs_per_multiprocessor,
                    "multiprocessor_count": one.multi_processor_count, "warpSize": one.warp_size,
                    "sm_clock_rate": 0, "mem_clock_rate": 0, "mem_bus_width": 0}

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    # These two stand before every launch, so they are what Triton's own driver asks.
    get_current_device = staticmethod(torch.cuda.current_device)

    def set_current_device(self, device):
        torch.cuda.set_device(device)

    get_current_stream = staticmethod(torch._C._cuda_getCurrentRawStream)

    def get_device_capability(self, device=0):
        return torch.cuda.get_device_capability(device)

    def get_active_torch_device(self):
        return torch.device("cuda", torch.cuda.current_device())

    def get_device_interface(self):
        return torch.cuda

    def get_benchmarker(self):
        return triton.testing.do_bench

    def get_empty_cache_for_benchmark(self):
        return torch.empty(64 << 20, dtype=torch.int, device="cuda")

    def clear_cache(self, cache):
        cache.zero_()


def checked(result, what):
    if result != 0:
        raise RuntimeError(f"{what}: CUDA error {result}")


class BuiltKernel:
    """One specialisation, as Triton's CompiledKernel is used by a launch."""

    def __init__(self, folder, entry):
        metadata = entry["metadata"]
        if metadata.get("tensordesc_meta"):
            raise LateKernel("kernels with tensor descriptors are not compiled ahead")
        driver = ctypes.CDLL("libcuda.so.1")
        with open(os.path.join(folder, entry["cubin"]), "rb") as file:
            self.code = file.read()
        self.module, function = ctypes.c_void_p(), ctypes.c_void_p()
        checked(driver.cuModuleLoadData(ctypes.byref(self.module), self.code), "loading a kernel")
        checked(driver.cuModuleGetFunction(ctypes.byref(function), self.module, metadata["name"].encode()),
                f"finding the kernel {metadata['name']}")
        shared = metadata["shared"]
        if shared > SHARED_WITHOUT_ASKING:
            checked(driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, ctypes.c_int(shared)), "shared memory")
        self.function = function.value
        self.packed_metadata = (metadata["num_warps"], metadata["num_ctas"], shared)
        self.metadata, self.name = metadata, metadata["name"]
        loader = importlib.machinery.ExtensionFileLoader("__triton_launcher", os.path.join(folder, entry["launcher"]))
        spec = importlib.util.spec_from_file_location("__triton_launcher", loader.path, loader=loader)
        launcher = importlib.util.module_from_spec(spec)
        loader.exec_module(launcher)
        self.launch = launcher.launch

    def launch_metadata(self, grid, stream, *args):
        return None

    def run(self, x, y, z, stream, function, *args):
        metadata, scratch = self.metadata, None
        if metadata["global_scratch_size"] > 0:
            size = x * y * z * metadata["num_ctas"] * metadata["global_scratch_size"]
            scratch = torch.empty(size, dtype=torch.int8, device="cuda")
        self.launch(x, y, z, stream, function, metadata["launch_cooperative_grid"], metadata["launch_pdl"], scratch, None, *args)


class BuiltKernels:
    """The kernels of one folder. Each is loaded when it is launched first."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "kernels.json"), encoding="utf-8") as file:
            self.entries = {entry["key"]: entry for entry in json.load(file)}

    def compiled(self, function, key, signature, device, constexprs, options, attrs, warmup):
        """In the place of JITFunction._do_compile."""
        name = hashlib.sha256("\0".join((function.cache_key, key)).encode()).hexdigest()
        entry = self.entries.get(name)
        if entry is None:
            raise LateKernel(f"the kernel '{function.__name__}' was not launched in this way when the model was called on tensors "
                             "without values, so it was not compiled. Launch it with types and constants that do not depend "
                             "on values")
        if "error" in entry:
            raise PTXASError(entry["error"])  # which a tuner takes for a configuration that cannot be had
        cache, *_ = function.device_caches[device]
        cache[key] = BuiltKernel(self.folder, entry)
        return cache[key]


def install(folder):
    kernels = BuiltKernels(folder)
    triton.runtime.driver.set_active(DeviceDriver())
    jit.JITFunction._do_compile = lambda function, *args: kernels.compiled(function, *args)
