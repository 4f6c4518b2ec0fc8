"""Stands for the package modal where it is not installed: scripts can be imported and run with eval_mode=local alone."""


class _Anything:
    """What describes an image or a policy of retries: every call returns it again."""

    def __call__(self, *values, **named):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self


Image = _Anything()
Retries = _Anything()


class App:
    def __init__(self, name=None):
        self.name = name

    def cls(self, *values, **named):
        return lambda decorated: decorated

    function = cls

    def run(self, *values, **named):
        raise RuntimeError("modal is not installed, and this is a stub of it: use eval_mode=local")


def method(*values, **named):
    return lambda decorated: decorated
