"""Gives a candidate the extensions that were built for it.

install(folder) replaces load_inline and load of torch.utils.cpp_extension in this process. `folder` holds index.json:
a list of {"request": the request, "file": the module's shared object in that folder, or "error": what the compilers
said}. Nothing is compiled here: the process that runs a candidate has no compiler.
"""
import importlib.machinery
import importlib.util
import json
import os

import extension_calls


class LateBuild(RuntimeError):
    """Asked for an extension that was not asked for when the candidate's requests were recorded."""


class BuiltExtensions:
    """The modules of one folder. A module is loaded once, and the same one is returned again."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            self._entries = json.load(file)
        self._loaded = {}
        self.in_calls, self.late = False, 0  # how many were first asked for in a call of the model

    def _module(self, request):
        for at, entry in enumerate(self._entries):
            if entry["request"] == request:
                break
        else:
            raise LateBuild(f"the extension '{request['name']}' was not asked for when this file was imported and its "
                            "model made and called without values, so it was not built; call load_inline at module "
                            "level, with texts that are always the same")
        if "error" in entry:
            raise RuntimeError(f"Error building extension '{request['name']}': {entry['error']}")
        if at not in self._loaded:
            self.late += self.in_calls
            path = os.path.join(self.folder, entry["file"])
            loader = importlib.machinery.ExtensionFileLoader(request["name"], path)
            spec = importlib.util.spec_from_file_location(request["name"], path, loader=loader)
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            self._loaded[at] = module
        return self._loaded[at]

    def load_inline(self, *values, **named):
        return self._module(extension_calls.of_load_inline(*values, **named))

    def load(self, *values, **named):
        return self._module(extension_calls.of_load(*values, **named))


def install(folder):
    """Replaces the two functions; returns what stands behind them."""
    import torch.utils.cpp_extension as cpp_extension
    built = BuiltExtensions(folder)
    cpp_extension.load_inline = built.load_inline
    cpp_extension.load = built.load
    return built
