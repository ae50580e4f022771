"""Tensors that wrap others (sparse, quantized): operators ask a table of rules, which each kind has for itself."""

from .._C import Tensor


class Rules(dict):
    """Operator name -> the function that computes it for this kind, called with the operator's own arguments."""

    def __init__(self, kind):
        super().__init__()
        self._kind = kind

    def rule(self, *names):
        """Decorator: the function computes these operators where an argument is of this kind."""
        def record(function):
            for name in names:
                if name in self:
                    raise RuntimeError(f"{self._kind} operator {name} has two rules")
                self[name] = function
            return function
        return record


class Wrapped(Tensor):
    """Base of the kinds. `_run(func, args, kwargs, below=False)` is set by the module that has the rules."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls._run(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls._run(func, args, kwargs or {}, below=True)
