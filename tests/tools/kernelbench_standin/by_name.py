"""A caller that imports both functions by name, as KernelBench's scripts do."""

from kernelbench.eval import eval_kernel_against_ref
from kernelbench.timing import measure_ref_program_time


def evaluate(*values, **named):
    return eval_kernel_against_ref(*values, **named)


def baseline(*values, **named):
    return measure_ref_program_time(*values, **named)
