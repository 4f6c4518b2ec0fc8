"""Python imports this at its start where this folder is first in PYTHONPATH: it puts the shim on."""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_the_next():
    """The sitecustomize that this one hides."""
    places = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


import quern_kernelbench.overlay  # noqa: E402

quern_kernelbench.overlay.install()
run_the_next()
