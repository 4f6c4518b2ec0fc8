"""A candidate's model, made and called on tensors without memory, to learn what it asks for before anything is built.

Used by the recorders (extension_recorder.py, triton_recorder.py).
"""
import ast

import torch
from torch.overrides import TorchFunctionMode

ALIGNED = 1 << 12  # as CUDA's allocator aligns, and more


class SaysDevice(TorchFunctionMode):
    """Tensors of the device `meta` say that they are on `device`, and what is asked for there, or on a GPU, is made on
    `meta`."""

    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        self.answers = {torch.Tensor.is_cuda.__get__: on_gpu, torch.Tensor.is_cpu.__get__: not on_gpu,
                        torch.Tensor.is_meta.__get__: False, torch.Tensor.device.__get__: self.device,
                        torch.Tensor.get_device: self.device.index if on_gpu else -1, torch.Tensor.is_pinned: False}
        self.same = [torch.Tensor.cuda, torch.Tensor.pin_memory, torch.Tensor.record_stream]
        if not on_gpu:
            self.same.append(torch.Tensor.cpu)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            if func in self.answers:
                return self.answers[func]
            if func == torch.Tensor.data_ptr:
                return ALIGNED + args[0].storage_offset() * args[0].element_size()
            if func in self.same:
                return args[0]
        except TypeError:  # no hash
            pass
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        if func is torch.tensor and args and isinstance(args[0], (bool, int, float)):
            return func(args[0], **{**kwargs, "device": "cpu"})  # its value may be asked for
        return func(*map(self._here, args), **{name: self._here(value) for name, value in kwargs.items()})

    def _here(self, value):
        named = isinstance(value, str) and value.split(":")[0] in ("cuda", self.device.type)
        return torch.device("meta") if named or isinstance(value, torch.device) else value


def has_model(module):
    return hasattr(module, "ModelNew") or hasattr(module, "Model")


def make_model(module, init_args):
    """ModelNew of a module, or Model where it has no ModelNew, by a list or a dictionary of arguments."""
    made = getattr(module, "ModelNew", None) or module.Model
    return made(**init_args) if isinstance(init_args, dict) else made(*init_args)


def made_input(given):
    """An argument of forward: {"value": ANY}, {"literal": its text in Python}, or {"shape": LIST, "dtype": "float32"}."""
    if "literal" in given:
        return ast.literal_eval(given["literal"])
    if "value" in given:
        return given["value"]
    return torch.empty(given["shape"], dtype=getattr(torch, given["dtype"]))
