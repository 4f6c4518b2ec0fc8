"""torch.compile in a process that has no compiler: what it returns refuses when it is called, not before.

A line that nothing needs, or a way around it, harms no module. Without this TorchInductor would start processes for its
compiler, by which the sandbox ends this one.
"""

import functools

import torch


class NotHere(RuntimeError):
    """The module needs what no process of this kind has."""


def refusing(*unused, **named):
    raise NotHere("torch.compile needs a compiler where the module runs, and there is none")


class RefusedModule(torch.nn.Module):
    """Stands for a module as torch's OptimizedModule does, which has the same parameters by the same names."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    forward = refusing

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules[name]
        return getattr(self._orig_mod, name)


def refused_compile(model=None, **named):
    """In the place of torch.compile, as a function and as a decorator."""
    if model is None:
        return lambda target: refused_compile(target, **named)
    if isinstance(model, torch.nn.Module):
        return RefusedModule(model)
    return functools.wraps(model, updated=())(lambda *values, **more: refusing())


def install():
    torch.compile = refused_compile
    torch.nn.Module.compile = lambda self, *values, **named: setattr(self, "_compiled_call_impl", refusing)
