"""Learns which extensions a candidate asks for, without building one.

Recording runs the candidate's text in this process, with load_inline and load of torch.utils.cpp_extension replaced, and
has the requests in the order in which they were first made. The text may be hostile: use it only in a sandboxed process
that does nothing afterwards.

By hand, or as a sandboxed program: extension_recorder.py <job.json >answer.jsonl
  job: {"source": TEXT, "init_args": LIST or null}; one line {"request": {…}} for each request, and then one line
  {"end": WORD, "text": TEXT}. WORD is "imported" (the text ran), "constructed", "called" or "raised".
"""
import ast
import contextlib
import json
import os
import sys
import traceback
import types

import extension_calls
import meta_model

MOST_REQUESTS = 16
MOST_TEXT = 4000
BUILDS = ("load_inline", "load")
BUILDER = "torch.utils.cpp_extension"


class _TooMany(RuntimeError):
    pass


class _Reached(BaseException):
    """A call of the model has come to a function of an extension, which is not built yet. No error of the text, so no
    `except Exception` of it takes it for one."""


class _Placeholder(types.ModuleType):
    """Stands for a module that is not built yet. Its functions can be named, kept and called; a call returns nothing of
    use, so whoever computes with it fails, after the requests were made."""

    def __init__(self, name, recorder):
        super().__init__(name)
        self.__recorder__ = recorder

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*values, **named):
            if self.__recorder__.is_called:
                raise _Reached
            raise RuntimeError(f"{self.__name__}.{name} is not built while requests are recorded")
        function.__name__ = name
        return function


class Recorder:
    """Takes calls; keeps each request once."""

    def __init__(self):
        self.requests = []
        self.is_called = False  # forward is under way

    def _add(self, request):
        if request not in self.requests:
            if len(self.requests) >= MOST_REQUESTS:
                raise _TooMany(f"more than {MOST_REQUESTS} extensions")
            self.requests.append(request)
        return _Placeholder(request["name"], self)

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


def calls_in(source_text):
    """How many calls of load_inline and load a text has, by their names and those that an import gives them; and whether
    each is made at most once, at module scope outside of loops."""
    tree = ast.parse(source_text)
    functions, modules = set(), {BUILDER}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == BUILDER:
            functions |= {one.asname or one.name for one in node.names if one.name in BUILDS}
        elif isinstance(node, ast.ImportFrom):
            modules |= {one.asname or one.name for one in node.names if f"{node.module}.{one.name}" == BUILDER}
        elif isinstance(node, ast.Import):
            modules |= {one.asname for one in node.names if one.asname and one.name == BUILDER}

    def builds(called):
        if isinstance(called, ast.Name):
            return called.id in functions
        return isinstance(called, ast.Attribute) and called.attr in BUILDS and ast.unparse(called.value) in modules

    def count(nodes):
        return sum(isinstance(node, ast.Call) and builds(node.func) for node in nodes)
    repeated = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp,
                ast.GeneratorExp)
    inside = sum(count(ast.walk(node)) for node in ast.walk(tree) if isinstance(node, repeated))
    return count(ast.walk(tree)), inside == 0


class Recording:
    """One candidate's text: run(), and while it `asks_later` construct() and call(). Whatever the text raises is a result.
    `end` is the last stage that it came to, or "raised"; `text` the end of the traceback, if there is one."""

    def __init__(self, source_text, recorder=None):
        """`recorder`: one whose functions are in their places already."""
        self.source_text = source_text
        if recorder is None:
            recorder = Recorder()
            recorder.replace_functions()
        self.recorder = recorder
        self.end, self.text = "raised", ""
        self.module, self.model = types.ModuleType("candidate"), None

    @property
    def requests(self):
        return self.recorder.requests

    def run(self):
        """Imports the text."""
        self.module.__file__ = os.path.join(os.getcwd(), "candidate.py")
        sys.modules["candidate"] = self.module
        with self._stage():
            exec(compile(self.source_text, self.module.__file__, "exec"), self.module.__dict__)
            self.end = "imported"

    def construct(self, init_args=None):
        """Makes the model on the device `meta`. `init_args`: none: those that get_init_inputs of the text returns, if it
        has that."""
        import torch
        with self._stage():
            self.end = "raised"
            if init_args is None:
                init_args = self._given("get_init_inputs", [])
            with torch.device("meta"):
                self.model = meta_model.make_model(self.module, init_args)
            self.end = "constructed"

    def _lacks_requests(self):
        count, once = calls_in(self.source_text)
        return not once or len(self.requests) < max(1, count)

    def asks_later(self):
        """Whether the next stage may ask for more: the model's making, or its call."""
        with self._stage():
            has_next = {"imported": lambda: meta_model.has_model(self.module), "constructed": lambda: callable(self.model)}
            return self.end in has_next and has_next[self.end]() and self._lacks_requests()
        return False

    def call(self, inputs=None):
        """Calls the model once, on tensors without memory that say they are on the CPU, as far as the first call of a
        function of an extension. `inputs`: for meta_model.made_input; none: those that get_inputs of the text returns."""
        import torch
        with self._stage(), torch.device("meta"), meta_model.SaysDevice("cpu"), torch.no_grad():
            self.end = "raised"
            given = self._given("get_inputs", None) if inputs is None else list(map(meta_model.made_input, inputs))
            if given is None:
                self.end = "constructed"  # nobody says what it is called on
                return
            self.recorder.is_called = True
            with contextlib.suppress(_Reached):
                self.model(*given)
            self.end = "called"

    def _given(self, name, otherwise):
        make = getattr(self.module, name, None)
        return make() if callable(make) else otherwise

    @contextlib.contextmanager
    def _stage(self):
        """What a stage raises is told, and its changes of os.environ are undone."""
        before = dict(os.environ)
        try:
            yield
        except BaseException:  # SystemExit and KeyboardInterrupt are the text's doing, too
            self.text = traceback.format_exc()[-MOST_TEXT:]
        finally:
            os.environ.clear()
            os.environ.update(before)


def main():
    job = json.load(sys.stdin)
    recorder = Recorder()
    recorder.replace_functions()  # an error of this host is still seen
    # The answer's descriptor is taken away before the text runs: what it prints goes nowhere.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    written = 0

    def write_requests():
        nonlocal written
        for request in recorder.requests[written:]:
            answer.write(json.dumps({"request": request}, sort_keys=True) + "\n")
        written = len(recorder.requests)
        answer.flush()

    recording = Recording(job["source"], recorder)
    recording.run()
    write_requests()
    for stage in (lambda: recording.construct(job["init_args"]), recording.call):
        if recording.asks_later():
            stage()
            write_requests()
    answer.write(json.dumps({"end": recording.end, "text": recording.text}) + "\n")
    answer.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
