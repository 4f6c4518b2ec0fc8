"""Learns which Triton kernels a candidate launches, in which specialisations, without a GPU and without compiling any.

record(source, init_args, inputs) runs the candidate's text in this process: it constructs ModelNew and calls it once, on
tensors without memory that say they are on a GPU. A launch is not made; what Triton would compile for it is written
down: its first form (TTIR), its options, and the key by which Triton finds the compiled kernel again. The text may be
hostile: call it only in a sandboxed process that does nothing afterwards.

In a child of a warm Python (module_child.py), answers(job); as a sandboxed program: triton_recorder.py <job.json >answer.jsonl
  job: {"source": TEXT, "init_args": LIST, or its text in Python, "inputs": [{"shape": LIST, "dtype": "float32"},
  {"value": ANY} or {"literal": its text in Python}, …]}; one line
  {"kernel": {…}} for each specialisation, and then one line {"end": WORD, "reason": WORD, "text": TEXT, "notes": LIST}.
  End is "ran" or "raised". Reason: "" (every launch was learnt), "no_launch", "data_dependent" (a value of a tensor
  decides), "kernel_refused" (Triton refuses the kernel), "limit", "raised".

Pointers of tensors are taken to be aligned as CUDA's allocator aligns them, plus what a view adds.
"""
import ast
import hashlib
import json
import os
import sys
import traceback
import types

import torch
import triton
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.compiler import compiler
from triton.runtime import autotuner, jit

import extension_recorder
import meta_model

TARGET = GPUTarget("cuda", 90, 32)
MOST_KERNELS = 64
MOST_BYTES = 1 << 20
MOST_TEXT = 4000
# Of the device that is compiled for. What a text reads of them may enter its kernels.
DEVICE = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32,
          "sm_clock_rate": 1980000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}
# Others name files, or what belongs to the host.
OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg", "enable_fp_fusion", "enable_reflect_ftz", "debug",
           "launch_cooperative_grid", "launch_pdl", "sanitize_overflow", "default_dot_input_precision",
           "max_num_imprecise_acc_default")


class _Limit(RuntimeError):
    pass


class _Driver:
    """Stands for Triton's driver of a device that is not here."""

    utils = types.SimpleNamespace(get_device_properties=lambda device=0: dict(DEVICE))

    def get_current_target(self):
        return TARGET

    def get_current_device(self):
        return 0

    def set_current_device(self, device):
        pass

    def get_current_stream(self, device=None):
        return 0

    def get_device_capability(self, device=0):
        return (9, 0)

    def get_active_torch_device(self):
        return torch.device("cuda", 0)

    def get_device_interface(self):
        return torch.cuda

    def get_benchmarker(self):
        return _called_once

    def get_empty_cache_for_benchmark(self):
        return torch.empty(0)

    def clear_cache(self, cache):
        pass


def _called_once(call, *_, quantiles=None, **__):
    """Stands for do_bench: each configuration is launched, so it is learnt; all are equally fast."""
    call()
    return 1.0 if quantiles is None else [1.0] * len(quantiles)


def _option_values(backend, options):
    """What was asked for beyond Triton's defaults, or ValueError for what is not handed on."""
    standard = backend.parse_options({}).__dict__
    asked = {name: value for name, value in options.__dict__.items() if value != standard[name]}
    for name, value in asked.items():
        if name not in OPTIONS or not isinstance(value, (bool, int, str)):
            raise ValueError(f"the option {name}={value!r} is not handed on: {', '.join(OPTIONS)} are")
    return asked


class KernelRecorder:
    """Takes launches; keeps each specialisation once."""

    def __init__(self):
        self.kernels = {}
        self.notes = []

    def install(self):
        """Replaces driver, launches and the tuner of Triton in this process, and what torch says of CUDA."""
        extension_recorder.Recorder().replace_functions()
        recorder = self
        triton.runtime.driver.set_active(_Driver())
        triton.testing.do_bench = triton.testing.do_bench_cudagraph = _called_once

        def run(function, *args, grid, warmup, **kwargs):
            return recorder.launch(function, args, kwargs, grid)
        jit.JITFunction.run = run
        tune = autotuner.Autotuner.run

        def tuned(function, *args, **kwargs):
            count = len(function.configs)
            if count > 1:
                recorder.note(f"autotune: {count} configurations of {function.base_fn.__name__} are compiled where they "
                              "can be, choice is made on the device")
            return tune(function, *args, **kwargs)
        autotuner.Autotuner.run = tuned
        nothing = types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None, wait_stream=lambda other: None)
        for name in ("synchronize", "set_device", "empty_cache", "_lazy_init", "init"):
            setattr(torch.cuda, name, lambda *_: None)
        torch.cuda.current_stream = torch.cuda.default_stream = lambda device=None: nothing
        torch.cuda._exchange_device = torch.cuda._maybe_exchange_device = lambda device: 0
        torch.cuda.is_bf16_supported = lambda including_emulation=True: True
        torch.cuda.get_device_properties = lambda device=None: types.SimpleNamespace(
            name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=DEVICE["multiprocessor_count"],
            total_memory=80 << 30, shared_memory_per_multiprocessor=233472, warp_size=32,
            shared_memory_per_block_optin=DEVICE["max_shared_mem"], max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536, L2_cache_size=50 << 20)

    def note(self, text):
        if text not in self.notes and len(self.notes) < MOST_KERNELS:
            self.notes.append(text)

    def launch(self, function, args, kwargs, grid):
        """What JITFunction.run does, up to the compilation."""
        kwargs["debug"] = kwargs.get("debug", function.debug) or triton.knobs.runtime.debug
        kwargs["instrumentation_mode"] = triton.knobs.compilation.instrumentation_mode
        for hook in function.pre_run_hooks:
            hook(*args, **kwargs)
        _, keys, _, backend, binder = function.device_caches[0]
        bound, specialization, options = binder(*args, **kwargs)
        key = jit.compute_cache_key(keys, specialization, options)
        identity = (function.cache_key, key)
        if identity not in self.kernels:
            if len(self.kernels) >= MOST_KERNELS:
                raise _Limit(f"more than {MOST_KERNELS} kernels")
            self.kernels[identity] = self._learnt(function, backend, bound, specialization, kwargs, options, identity)
        if callable(grid):
            grid(bound)

    def _learnt(self, function, backend, bound, specialization, kwargs, options, identity):
        if function.is_gluon():
            raise NotImplementedError("kernels in Gluon are not compiled ahead")
        options, signature, constexprs, attrs = function._pack_args(backend, kwargs, bound, specialization, options)
        asked = _option_values(backend, options)
        source = compiler.ASTSource(function, signature, constexprs, attrs)
        context = compiler.ir.context()
        compiler.ir.load_dialects(context)
        backend.load_dialects(context)
        module = source.make_ir(TARGET, options, backend.get_codegen_implementation(options), backend.get_module_map(),
                                context)
        text = module.str_nodebug()
        if len(text) > MOST_BYTES:
            raise _Limit(f"{function.__name__} has {len(text)} characters of TTIR, at most {MOST_BYTES} are allowed")
        return {"name": function.__name__, "key": hashlib.sha256("\0".join(identity).encode()).hexdigest(), "ttir": text,
                "signature": [list(kind) if isinstance(kind, tuple) else kind for kind in signature.values()],
                "options": asked}


def _reason(error):
    """A word for why a text could not be followed to its end."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, _Limit):
        return "limit"
    if isinstance(error, triton.compiler.errors.TritonError):
        return "kernel_refused"
    if "meta tensor" in text or "register_meta" in text or "data-dependent" in text or "Meta" in text:
        return "data_dependent"
    return "raised"


def record(source_text, init_args, inputs, recorder):
    """(end, reason, text). `recorder`: a KernelRecorder that is installed. Whatever the text raises is a result."""
    module = types.ModuleType("candidate")
    module.__file__ = os.path.join(os.getcwd(), "candidate.py")
    sys.modules["candidate"] = module
    try:
        with open(module.__file__, "w", encoding="utf-8") as file:  # Triton reads a kernel's lines
            file.write(source_text)
        with torch.device("meta"), meta_model.SaysDevice("cuda:0"), torch.no_grad():
            exec(compile(source_text, module.__file__, "exec"), module.__dict__)
            made = meta_model.make_model(module, init_args)
            if isinstance(made, torch.nn.Module):
                made = made.cuda()
            made(*map(meta_model.made_input, inputs))
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the text's doing, too
        return "raised", _reason(error), traceback.format_exc()[-MOST_TEXT:]
    return "ran", "" if recorder.kernels else "no_launch", ""


def answers(job):
    """The lines that answer a job, by a recorder of their own."""
    recorder = KernelRecorder()
    recorder.install()  # an error of this host is still seen
    return _recorded(job, recorder)


def _recorded(job, recorder):
    init_args = job["init_args"]
    if isinstance(init_args, str):
        init_args = list(ast.literal_eval(init_args))
    end, reason, text = record(job["source"], init_args, job["inputs"], recorder)
    text = text.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair is no JSON
    lines = [json.dumps({"kernel": kernel}, sort_keys=True) for kernel in recorder.kernels.values()]
    return lines + [json.dumps({"end": end, "reason": reason, "text": text, "notes": recorder.notes})]


def main():
    job = json.load(sys.stdin)
    recorder = KernelRecorder()
    recorder.install()
    # The answer's descriptor is taken away before the text runs: what it prints goes nowhere.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    answer.writelines(line + "\n" for line in _recorded(job, recorder))
    answer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
