"""Stands for the package pydra-config where it is not installed: KEY=VALUE arguments, as KernelBench's scripts use them."""

import ast
import functools
import sys


class _Required:
    def __repr__(self):
        return "REQUIRED"

    def __reduce__(self):
        return "REQUIRED"


REQUIRED = _Required()


class Config:
    """Options are the attributes that the constructor of a derived class sets."""

    def to_dict(self):
        return dict(vars(self))


def _value_of(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _fill(config, words):
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            sys.exit(f"pydra (stub): {word}: KEY=VALUE is needed")
        if name not in vars(config):
            sys.exit(f"pydra (stub): no option {name}; known are {', '.join(vars(config))}")
        setattr(config, name, _value_of(text))
    missing = [name for name, value in vars(config).items() if value is REQUIRED]
    if missing:
        sys.exit(f"pydra (stub): needed: {', '.join(missing)}")
    return config


def main(base):
    """Of a function with one argument: it is called with a `base` that the command line has filled."""

    def decorate(function):
        @functools.wraps(function)
        def run():
            return function(_fill(base(), sys.argv[1:]))

        return run

    return decorate
