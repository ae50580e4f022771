"""One sample call: its positional and keyword arguments."""


class Sample:
    """A call of an operator; `args[0]` is the input the layout tests rearrange."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args, kwargs):
        self.args, self.kwargs = args, kwargs

    def __repr__(self):
        shown = [_show(a) for a in self.args] + [f"{k}={_show(v)}" for k, v in self.kwargs.items()]
        return f"({', '.join(shown)})"


def _show(x):
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return f"{str(x.dtype).split('.')[-1]}{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(_show(v) for v in x) + "]"
    return repr(x)


def call(*args, **kwargs):
    """Sample(args, kwargs)."""
    return Sample(args, kwargs)
