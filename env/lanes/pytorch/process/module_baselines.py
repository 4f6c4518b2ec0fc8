"""How a reference is called where it is a baseline other than eager: through torch.compile, or as CUDA graphs.

It has a process of its own for that, beside the one that says what is right. All that takes long, compilers, tuning and
captures, is done when the baseline is made: a call finds it ready.
"""

import torch

from module_tensors import Unusable

# As baselines are named (env/verdict/baseline.hpp), with torch.compile's own words.
MODES = {"compile": None, "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune"}
# The first compiles, the second records CUDA graphs where the mode has them, the third is as all that come.
FIRST_CALLS = 3


class Compiled:
    """A model through torch.compile. What a mode does around a call, such as copies to where a graph reads, is part of it."""

    def __init__(self, model, mode, draws):
        import torch._inductor.config as settings
        settings.compile_threads = 1    # a pool of compilers would be processes that wait with the device open
        settings.fallback_random = draws  # numbers as eager draws them, or results would be others
        torch._dynamo.reset()
        self.function = torch.compile(model, mode=mode, dynamic=False)
        self.has_graphs = mode is not None

    def of_call(self, _):
        if self.has_graphs:
            torch.compiler.cudagraph_mark_step_begin()  # results of the call before may be written over
        return self.function


class Graphs:
    """A CUDA graph for each call of a window, which reads the inputs where the evaluator puts them. So nothing is copied
    before a replay: the evaluator's own copies, which both sides have, are all there is."""

    def __init__(self, child, calls):
        self.captured = [child.memory.capture(lambda call=call: child.computed(call)) for call in range(calls)]

    def of_call(self, call):
        replay, results = self.captured[call]

        def replayed(*_):
            replay()
            return results
        return replayed


def make(name, child, calls):
    """The baseline `name` of the child's model, for windows of `calls` calls. Exceptions: it cannot be made of this model."""
    if name == "graph":
        return Graphs(child, calls)
    if name not in MODES:
        raise Unusable(f"no baseline {name}: graph, {', '.join(MODES)}")
    made = Compiled(child.model, MODES[name], child.reseeds)
    for _ in range(FIRST_CALLS):
        child.call_by(made, 0)
    return made
