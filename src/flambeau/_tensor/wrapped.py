"""Tensors that wrap others (sparse, quantized): operators ask a table of rules, which each kind has for itself."""

from copy import deepcopy

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


def own(x):
    """The attributes of a wrapper that are not its contents."""
    return {name: value for name, value in x.__dict__.items() if name not in x._contents}


def copied(x, memo, attributes):
    """A deep copy of a tensor without memory of its own: its clone, with copies of attributes and gradient."""
    result = memo[id(x)] = x.detach().clone()
    if type(result) is not type(x):
        raise RuntimeError(f"deepcopy: {type(x).__name__}.clone() gave a {type(result).__name__}; it must keep its "
                           "type, or the class define __deepcopy__")
    if x.requires_grad:
        result.requires_grad_()
    if x.grad is not None:
        result.grad = deepcopy(x.grad, memo)
    result.__dict__.update({name: deepcopy(value, memo) for name, value in attributes.items()})
    return result


class Wrapped(Tensor):
    """Base of the kinds. `_run(func, args, kwargs, below=False)` is set by the module that has the rules."""

    _contents = ()  #: names of the attributes that say what it holds

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(f"deepcopy: this tensor was computed by {self.grad_fn.name()} and has a history; copy "
                               "its values with x.detach().clone()")
        return copied(self, memo, own(self))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls._run(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls._run(func, args, kwargs or {}, below=True)
