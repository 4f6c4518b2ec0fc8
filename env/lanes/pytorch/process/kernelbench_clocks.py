"""Where KernelBench's evaluation runs (kernelbench_exact.py), and the ways in which it takes times there.

Orders, counts and sizes are those of KernelBench's timing.py. A clock lives in the process of the candidate, which may have
put another in its place: whatever it says may be the candidate's doing.
"""

import time

import torch

FLUSHED_WORDS = 32 << 20  # of 8 bytes: the buffer that is written before each timed call
TRITONS_FLUSHED_WORDS = 64 << 20  # of 4 bytes: Triton's, in do_bench and do_bench_impl
DO_BENCH_WARM_UP_MS, DO_BENCH_MS, DO_BENCH_FIRST, DO_BENCH_MOST = 25, 100, 5, 10_000
METHODS = ("cuda_event", "host_time", "do_bench", "do_bench_impl")


def how_often(budget_ms, one_ms):
    return min(DO_BENCH_MOST, max(1, int(budget_ms / max(one_ms, 1e-6))))


class OnCore:
    """On a core the device's events and the host's clock are one."""

    device, where = torch.device("cpu"), "tensors of the CPU"

    def wait(self):
        pass

    def flush(self):
        torch.empty(FLUSHED_WORDS, dtype=torch.int64).fill_(42)

    def timed_call(self, call):
        """Milliseconds."""
        self.flush()
        begin = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - begin)

    def by_counts(self, call, warm_ups, discarded, trials):
        for _ in range(warm_ups):
            call()
        return [self.timed_call(call) for _ in range(discarded + trials)][discarded:]

    cuda_event = host_time = by_counts

    def do_bench_impl(self, call, warm_ups, _, trials):
        return self.by_counts(call, warm_ups + 1, 0, trials)

    def do_bench(self, call, *_):
        """As many calls as fit into a budget of time, which Triton's do_bench fixes by a first look."""
        call()
        begin = time.perf_counter()
        for _ in range(DO_BENCH_FIRST):
            self.flush()
            call()
        one_ms = 1000 * (time.perf_counter() - begin) / DO_BENCH_FIRST
        for _ in range(how_often(DO_BENCH_WARM_UP_MS, one_ms)):
            call()
        return [self.timed_call(call) for _ in range(how_often(DO_BENCH_MS, one_ms))]


class OnGpu:
    """On a GPU an event is on the current stream: what a candidate does on another one is not in it, as in KernelBench."""

    where = "tensors of a GPU"

    def __init__(self, device):
        self.device = device

    def wait(self):
        torch.cuda.synchronize(self.device)

    def flush(self):
        torch.empty(FLUSHED_WORDS, dtype=torch.int64, device=self.device).fill_(42)

    def warm_up(self, call, times):
        for _ in range(times):
            call()
            self.wait()
        torch.cuda.empty_cache()

    def cuda_event(self, call, warm_ups, discarded, trials):
        self.warm_up(call, warm_ups)
        found = []
        for _ in range(discarded + trials):
            self.wait()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            self.flush()
            begin.record()
            call()
            end.record()
            self.wait()
            found.append(begin.elapsed_time(end))
        return found[discarded:]

    def host_time(self, call, warm_ups, discarded, trials):
        self.warm_up(call, warm_ups)
        found = []
        for _ in range(discarded + trials):
            self.wait()
            self.flush()
            begin = time.perf_counter()
            call()
            self.wait()
            found.append(1000 * (time.perf_counter() - begin))
        return found[discarded:]

    def in_a_row(self, call, cache, trials):
        """Events around each call, which nobody waits for before the last."""
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(trials)]
        for begin, end in events:
            cache.zero_()
            begin.record()
            call()
            end.record()
        self.wait()
        return [begin.elapsed_time(end) for begin, end in events]

    def tritons_cache(self):
        return torch.empty(TRITONS_FLUSHED_WORDS, dtype=torch.int, device=self.device)

    def do_bench_impl(self, call, warm_ups, _, trials):
        call()
        self.wait()
        cache = self.tritons_cache()
        for _ in range(warm_ups):
            call()
        self.wait()
        return self.in_a_row(call, cache, trials)

    def do_bench(self, call, *_):
        call()
        self.wait()
        cache = self.tritons_cache()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(DO_BENCH_FIRST):
            cache.zero_()
            call()
        end.record()
        self.wait()
        one_ms = begin.elapsed_time(end) / DO_BENCH_FIRST
        for _ in range(how_often(DO_BENCH_WARM_UP_MS, one_ms)):
            call()
        return self.in_a_row(call, cache, how_often(DO_BENCH_MS, one_ms))


def clocks_of(device):
    return OnGpu(device) if device.type == "cuda" else OnCore()
