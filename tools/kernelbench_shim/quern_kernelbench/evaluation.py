"""eval_kernel_against_ref by Quern: KernelBench's own protocol in a sandbox, and Quern's verdict beside it."""

from . import resident, terms


def fields_of(kind):
    """Names of the fields of a result class, older and newer."""
    return set(getattr(kind, "model_fields", None) or getattr(kind, "__annotations__", {}))


def result_of(kind, exact, verdict):
    """A result of class `kind`. `exact`: the answer of the protocol. None: KernelBench asks for another try."""
    end = exact["end"]
    if end == "retry":
        return None
    if end == "raised":
        raise terms.exception_of(exact, verdict)
    if end == "result":
        values = {name: value for name, value in exact.items() if name not in ("protocol", "end")}
    else:
        # What their scripts make of an exception that leaves their function.
        values = {"compiled": False, "correctness": False, "metadata": {"other_error": f"error: {exact['text']}", "other_error_name": f"quern.{end}"}}
    values["metadata"] = {**values["metadata"], "quern": verdict}
    known = fields_of(kind)
    return kind(**{name: value for name, value in values.items() if name in known})


def replacement_for(module):
    """The function for `module`, whose KernelExecResult it returns."""

    def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, num_perf_trials=10,
                                measure_performance=False, timing_method="cuda_event", verbose=False, build_dir=None, device=None,
                                backend="cuda", precision="fp32", check_for_excessive_speedup=True, excessive_speedup_threshold=10):
        answer = resident.ask(
            original_model_src, custom_model_src, precision=terms.precision_of(precision), verify_only=not measure_performance,
            exact={"protocol": terms.PROTOCOL, "seed": seed_num, "correct_trials": num_correct_trials, "perf_trials": num_perf_trials,
                   "measure": measure_performance, "timing_method": timing_method, "build_dir": str(build_dir or ""), "backend": backend,
                   "check_speedup": check_for_excessive_speedup, "excessive_above": excessive_speedup_threshold,
                   "limit_s": terms.limit_s()})
        result = result_of(module.KernelExecResult, answer["exact"], answer["verdict"])
        if verbose:
            print(f"[quern] {answer['exact']['end']}; Quern's own verdict: {answer['verdict'].get('verdict')}")
        return result

    eval_kernel_against_ref.__module__ = module.__name__
    return eval_kernel_against_ref
