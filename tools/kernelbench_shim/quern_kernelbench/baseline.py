"""measure_ref_program_time by Quern: the reference alone, eager, in the sandbox, on the core that measures candidates."""

from . import resident, terms

NOT_MEASURED = "torch.compile needs a compiler where the module runs, and the sandbox has none"


def measure_ref_program_time(ref_arch_name, ref_arch_src, num_warmup=5, num_trials=100, discard_first=1, timing_method="cuda_event",
                             use_torch_compile=False, torch_compile_backend="inductor", torch_compile_options="default", device=None,
                             verbose=False, precision="fp32"):
    """Statistics as KernelBench's. Under torch.compile the mean is NaN, and `unsupported` says why. None: it failed, and why is
    printed, as KernelBench does."""
    if use_torch_compile:
        print(f"[quern] {ref_arch_name}: not measured: {NOT_MEASURED}")
        return {"mean": float("nan"), "unsupported": NOT_MEASURED}
    try:
        answer = resident.ask(
            ref_arch_src, "", precision=terms.precision_of(precision), verdict=False,
            exact={"protocol": terms.PROTOCOL, "reference_only": True, "warm_ups": num_warmup, "discarded": discard_first,
                   "perf_trials": num_trials, "timing_method": timing_method, "limit_s": terms.limit_s()})
        exact = answer["exact"]
        if exact["end"] == "result":
            return exact["ref_runtime_stats"]
        problem = exact["text"]
    except RuntimeError as e:
        problem = str(e)
    print(f"[quern] {ref_arch_name}: not measured: {problem}")
    return None
