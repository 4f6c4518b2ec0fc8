"""Replaces functions of KernelBench's package right after its modules have run, before anybody can import them by name."""

import os
import sys

STUBS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "stubs")


def replace_evaluation(module):
    from . import cpu_device, evaluation
    cpu_device.stand_in()
    module.eval_kernel_against_ref = evaluation.replacement_for(module)


def replace_baseline(module):
    from . import baseline
    for name in ("measure_ref_program_time", "measure_program_time"):
        if hasattr(module, name):
            setattr(module, name, baseline.measure_ref_program_time)


# `src` is what the package was called before it had a name of its own.
REPLACED = {
    "kernelbench.eval": replace_evaluation,
    "src.eval": replace_evaluation,
    "kernelbench.timing": replace_baseline,
}


class Overlay:
    """A finder that asks the others, and adds to what they find."""

    def find_spec(self, name, path=None, target=None):
        if name not in REPLACED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return self.with_replacement(spec, REPLACED[name])
        return None

    @staticmethod
    def with_replacement(spec, replace):
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            replace(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    """Once in a process. Stubs stand last: a package that is installed is found before its stub."""
    if not any(isinstance(finder, Overlay) for finder in sys.meta_path):
        sys.meta_path.insert(0, Overlay())
        sys.path.append(STUBS)
