"""Which class an error has that leaves a program: its own, and `jit.Error`, which PyTorch raises in its place."""

import ast
import functools
import sys

from .._graph.inside import SCRIPTING
from .._places import is_ours


class Error(RuntimeError):
    """What a program raises; it is an error of the class that the program names, too."""


_COMBINED = {RuntimeError: Error}


def of_program(kind):
    """The class that is both an Error and of `kind`; `kind` itself where Python has no such class."""
    if kind not in _COMBINED:
        try:
            _COMBINED[kind] = kind if issubclass(kind, Error) else type(
                kind.__name__, (Error, kind), {"__module__": "flambeau.jit", "__qualname__": kind.__name__})
        except TypeError:  # their objects are laid out differently
            _COMBINED[kind] = kind
    return _COMBINED[kind]


def _becomes(error):
    """The class that an error should have."""
    kind = type(error)
    is_kept = isinstance(error, (Error, Warning, StopIteration)) or is_ours(kind.__module__ or "")
    return kind if is_kept else of_program(kind)


def is_foreign():
    """Whether the error that is handled is no Error yet."""
    error = sys.exception()
    return _becomes(error) is not type(error)


def converted():
    """The error that is handled, as one that leaves a program."""
    error = sys.exception()
    kind = _becomes(error)
    made = kind.__new__(kind, *error.args)
    made.args = error.args
    vars(made).update(vars(error))
    made.__cause__, made.__suppress_context__ = error.__cause__, True
    return made.with_traceback(error.__traceback__)


def guarded(function, accept):
    """The method `function`, which runs as a program: so are its errors, and `is_scripting()` says so. `accept` makes
    of arguments that Python gives it what the program takes."""
    @functools.wraps(function)
    def call(self, *args, **kwargs):
        before = SCRIPTING.set(True)
        try:
            if before.old_value is not True:
                args, kwargs = accept(args, kwargs)
            return function(self, *args, **kwargs)
        except Exception:
            if is_foreign():
                raise converted()  # noqa: B904 (it has the cause of the first)
            raise
        finally:
            SCRIPTING.reset(before)

    return call


def guarding(body, outside):
    """The statements of a compiled function, whose errors are those of a program; `outside(name, value)` gives names.
    """
    def asked(name, function):
        return ast.Call(outside(name, function), [], [])

    again = ast.If(asked("$is_foreign", is_foreign), [ast.Raise(asked("$converted", converted))], [])
    handler = ast.ExceptHandler(outside("$Exception", Exception), None, [again, ast.Raise()])
    return [ast.copy_location(ast.Try(body, [handler], [], []), body[0])]
