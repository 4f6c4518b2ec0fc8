"""Learns which extensions a candidate asks for, without building one.

record(source, init_args) runs the candidate's text in this process, with load_inline and load of
torch.utils.cpp_extension replaced, and returns the requests in the order in which they were first made. The text may be
hostile: call it only in a sandboxed process that does nothing afterwards.

By hand, or as a sandboxed program: extension_recorder.py <job.json >answer.jsonl
  job: {"source": TEXT, "init_args": LIST or null}; one line {"request": {…}} for each request, and then one line
  {"end": WORD, "text": TEXT}. WORD is "imported" (the text ran), "constructed", or "raised".
"""
import json
import os
import sys
import traceback
import types

import extension_calls

MOST_REQUESTS = 16
MOST_TEXT = 4000


class _TooMany(RuntimeError):
    pass


class _Placeholder(types.ModuleType):
    """Stands for a module that is not built yet. Its functions can be named, kept and called; a call returns nothing of
    use, so whoever computes with it fails, after the requests were made."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*values, **named):
            raise RuntimeError(f"{self.__name__}.{name} is not built while requests are recorded")
        function.__name__ = name
        return function


class Recorder:
    """Takes calls; keeps each request once."""

    def __init__(self):
        self.requests = []

    def _add(self, request):
        if request not in self.requests:
            if len(self.requests) >= MOST_REQUESTS:
                raise _TooMany(f"more than {MOST_REQUESTS} extensions")
            self.requests.append(request)
        return _Placeholder(request["name"])

    def load_inline(self, *values, **named):
        return self._add(extension_calls.of_load_inline(*values, **named))

    def load(self, *values, **named):
        return self._add(extension_calls.of_load(*values, **named))

    def replace_functions(self):
        import torch.utils.cpp_extension as cpp_extension
        cpp_extension.load_inline = self.load_inline
        cpp_extension.load = self.load
        # Without a driver torch says that there is no device, and candidates that ask do not go on to their build.
        import torch
        torch.cuda.is_available = lambda: True
        torch.cuda.get_device_capability = lambda device=None: (9, 0)
        torch.cuda.get_device_name = lambda device=None: "NVIDIA H100 80GB HBM3"
        torch.cuda.current_device = lambda: 0
        torch.cuda.device_count = lambda: 1


def _construct(module, init_args):
    import torch
    if init_args is None:
        make = getattr(module, "get_init_inputs", None)
        init_args = make() if callable(make) else []
    with torch.device("meta"):
        if isinstance(init_args, dict):
            return module.ModelNew(**init_args)
        return module.ModelNew(*init_args)


def record(source_text, init_args=None, recorder=None):
    """(requests, end, text): the requests; "imported", "constructed" or "raised"; the end of the traceback, if there is
    one. If the text asks for nothing when it is imported, ModelNew(*init_args) is constructed on the meta device.
    Whatever the text raises is a result. Changes of os.environ are undone. `recorder`: one whose functions are in their
    places already."""
    if recorder is None:
        recorder = Recorder()
        recorder.replace_functions()
    before = dict(os.environ)
    module = types.ModuleType("candidate")
    module.__file__ = os.path.join(os.getcwd(), "candidate.py")
    sys.modules["candidate"] = module
    end, text = "raised", ""
    try:
        exec(compile(source_text, module.__file__, "exec"), module.__dict__)
        end = "imported"
        if not recorder.requests and hasattr(module, "ModelNew"):
            _construct(module, init_args)
            end = "constructed"
    except BaseException:  # SystemExit and KeyboardInterrupt are the text's doing, too
        text = traceback.format_exc()[-MOST_TEXT:]
    finally:
        os.environ.clear()
        os.environ.update(before)
    return recorder.requests, end, text


def main():
    job = json.load(sys.stdin)
    recorder = Recorder()
    recorder.replace_functions()  # an error of this host is still seen
    # The answer's descriptor is taken away before the text runs: what it prints goes nowhere.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    requests, end, text = record(job["source"], job["init_args"], recorder)
    for request in requests:
        answer.write(json.dumps({"request": request}, sort_keys=True) + "\n")
    answer.write(json.dumps({"end": end, "text": text}) + "\n")
    answer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
