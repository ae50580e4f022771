"""What programs tell a compiler that proves things of their Python: functions to leave whole, guards to leave out.

Every call runs its Python here, and there are no guards, so a mark changes nothing about what a program computes.
"""

import functools
import inspect
from typing import NamedTuple

from .. import _C
from .._shown import shown
from .._tensor.creation import as_tensor
from ..nn import Parameter
from ..utils._pytree import tree_map


def nested_compile_region(fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None):
    """Decorator: marks a part that a model repeats. Plans are found by what is computed, so the parts share work
    already, and the function is returned as it is: there are no entries to limit and none to find by a hash.

    >>> import flambeau
    >>> block = flambeau.compiler.nested_compile_region(lambda x: x.relu() + 1)
    >>> flambeau.compile(lambda x: block(block(x)))(flambeau.tensor([-1.0]))
    tensor([2.])
    """
    if fn is None:
        return functools.partial(nested_compile_region, options=options, max_reuse_entries=max_reuse_entries,
                                 reuse_hash_fn=reuse_hash_fn)
    return _function(fn, "nested_compile_region")


def nonstrict_trace(traceable_fn):
    """Decorator: lets a compiler run the function while it captures, without proving anything of it. So it is with
    every function here, and it is returned as it is."""
    return _function(traceable_fn, "nonstrict_trace")


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Decorator of a function in Python that a compiler may follow in the place of `original_fn`, which takes the same
    parameters. Nothing is followed here: calls of the original run it, and the other is returned as it is.

    can_constant_fold_through: what it makes of constants is constant; it is computed each time.
    """
    _function(original_fn, "substitute_in_graph")

    def register(traceable_fn):
        _function(traceable_fn, "substitute_in_graph")
        if not skip_signature_check:
            _check_same_parameters(original_fn, traceable_fn)
        return traceable_fn

    return register


def _function(fn, name):
    if not callable(fn):
        raise TypeError(f"{name}: expected a function, got {shown(fn)}")
    return fn


def _check_same_parameters(original, other):
    try:
        theirs = inspect.signature(original)
    except ValueError:  # of a function of C, which does not tell
        return
    ours = inspect.signature(other)
    if [(p.name, p.kind) for p in theirs.parameters.values()] != [(p.name, p.kind) for p in ours.parameters.values()]:
        raise TypeError(f"substitute_in_graph: {shown(original)} has the parameters {theirs}, and what is to stand for "
                        f"it has {ours}; skip_signature_check=True allows that")


def wrap_numpy(fn):
    """A function of tensors made of one of NumPy's arrays: they share memory, and what it does has no derivative.

    >>> import flambeau, numpy
    >>> flambeau.compiler.wrap_numpy(lambda a: numpy.sort(a)[::-1].copy())(flambeau.tensor([1.0, 3.0, 2.0]))
    tensor([3., 2., 1.])
    """
    _function(fn, "wrap_numpy")

    @functools.wraps(fn)
    def of_tensors(*args, **kwargs):
        args, kwargs = tree_map(lambda x: x.numpy() if isinstance(x, _C.Tensor) else x, (args, kwargs))
        return tree_map(lambda x: as_tensor(x) if hasattr(x, "__array_interface__") else x, fn(*args, **kwargs))

    return of_tensors


# --- what would be kept -----------------------------------------------------------------------------------------------

class CacheInfo(NamedTuple):
    """What artifacts of a compiler contain."""

    artifacts: dict


def save_cache_artifacts():
    """What the compiler could keep for another process: None. A plan is made in milliseconds and stays in memory."""
    return


def load_cache_artifacts(serialized_artifacts):
    """Takes what another process has kept: None, since nothing of it has a use here."""
    if not isinstance(serialized_artifacts, bytes | bytearray | memoryview):
        raise TypeError(f"load_cache_artifacts: expected bytes, got {type(serialized_artifacts).__name__}")


def cudagraph_mark_step_begin():
    """Begins a step of recorded CUDA work: a recording keeps its own memory, so nothing has to be told apart."""


def cudagraph_mark_warmup_incomplete():
    """Lets recording of CUDA work wait for another call: what is recorded is a call like the one before it anyway."""


# --- guards -----------------------------------------------------------------------------------------------------------

_enabled = [False]


def set_enable_guard_collectives(enabled):
    """Whether ranks agree on what they compile: there are no guards to agree on. Returns what was set before.
    """
    before, _enabled[0] = _enabled[0], enabled
    return before


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """For options={"guard_filter_fn": …}: which guards to keep, without those of modules of the library."""
    return [not entry.orig_guard.source.is_unspecialized_builtin_nn_module() for entry in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """For options={"guard_filter_fn": …}: which guards to keep, without those of modules."""
    return [not entry.orig_guard.source.is_unspecialized_nn_module() for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries):
    """For options={"guard_filter_fn": …}: which guards to keep, none.

    >>> import flambeau
    >>> flambeau.compiler.skip_all_guards_unsafe([1, 2])
    [False, False]
    """
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """For options={"guard_filter_fn": …}: which guards to keep, without those of global variables."""
    return [not entry.is_global for entry in guard_entries]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """For options={"guard_filter_fn": …}: which guards to keep, those of tensors (and of parameters, if asked)."""
    return [entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, Parameter))
            for entry in guard_entries]


def keep_portable_guards_unsafe(guard_entries):
    """For options={"guard_filter_fn": …}: which guards to keep, those of tensors, sizes and settings."""
    return [entry.guard_type in ("TENSOR_MATCH", "SHAPE_ENV", "GLOBAL_STATE") for entry in guard_entries]
