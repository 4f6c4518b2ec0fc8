"""The function for baselines that the shim replaces."""


def measure_ref_program_time(*values, **named):
    return {"by": "the stand-in"}
