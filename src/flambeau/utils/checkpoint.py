"""Checkpointing: keep a function's inputs instead of its intermediate results, and compute those again in backward.

Without reentry (`use_reentrant=False`) saved-tensor hooks stand in for the intermediate results: each tensor that would
have been saved leaves an empty place, and the first of them that backward asks for runs the function once more, up to
the last place. With reentry one custom Function runs the whole forward without a graph, and a backward pass inside
backward.
"""

import warnings
import weakref
from contextlib import contextmanager, nullcontext

from .. import _C
from .._shown import shown
from .._tensor.overriding import TorchDispatchMode
from ..autograd import Function, backward, enable_grad, is_grad_enabled, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..random import cuda_generators, fork_rng, get_rng_state, set_rng_state
from ._pytree import tree_leaves
from ._selective import SAC_IGNORED_OPS as SAC_IGNORED_OPS
from ._selective import CheckpointPolicy as CheckpointPolicy
from ._selective import SelectiveCheckpointContext as SelectiveCheckpointContext
from ._selective import create_selective_checkpoint_contexts as create_selective_checkpoint_contexts


class CheckpointError(RuntimeError):
    """The function did something else when it was computed again."""


_early_stop = [True]
_debug = [None]
_TIP = "\nhint: checkpoint(..., debug=True) lists the operators of both runs side by side"


class _Setting:
    """A scope that changes one of the two settings above."""

    def __init__(self, place, value):
        self._place, self._value = place, value

    def __enter__(self):
        self._place.append(self._value)

    def __exit__(self, *_):
        self._place.pop()


def set_checkpoint_early_stop(enable):
    """Scope: whether computing again stops at the last tensor that is needed (it does, by default)."""
    return _Setting(_early_stop, bool(enable))


def set_checkpoint_debug_enabled(enabled):
    """Scope: whether a CheckpointError lists the operators of both runs, whatever `debug=` says."""
    return _Setting(_debug, enabled)


def noop_context_fn():
    """The contexts of the two runs, when nobody asks for others."""
    return nullcontext(), nullcontext()


class DefaultDeviceType:
    """The device type whose random state is kept beside the CPU's."""

    _device_type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        DefaultDeviceType._device_type = device

    @staticmethod
    def get_device_type():
        return DefaultDeviceType._device_type


def get_device_states(*args):
    """(device indices, random states) of the CUDA devices that the arguments, and tensors in lists of them, are on."""
    found = sorted({t.device.index for t in tree_leaves(args) if isinstance(t, _C.Tensor) and t.is_cuda})
    return found, [g.get_state() for g in cuda_generators(found)]


def set_device_states(devices, states, *, device_type=None):
    """Puts the states of get_device_states back."""
    if devices and not _C._cuda.available():
        raise RuntimeError(f"set_device_states: this machine has no device of type {device_type or 'cuda'}")
    for generator, state in zip(cuda_generators(devices), states):
        generator.set_state(state)


class GraphExecGroup:
    """A scope in which several backward passes share what was computed again."""

    _open = []

    def __enter__(self):
        self.key = ("group", id(self))
        GraphExecGroup._open.append(self)
        return self

    def __exit__(self, *_):
        GraphExecGroup._open.remove(self)


class _State:
    """The random states and the autocast modes of the first run, for the second."""

    def __init__(self, keep_random):
        self.random = get_rng_state() if keep_random else None
        self.others = [(g, g.get_state()) for g in cuda_generators()] if keep_random else []
        self.autocast, self.cuda_autocast = _C.autocast_state(), _C.cuda_autocast_state()

    @contextmanager
    def again(self):
        autocast, cuda_autocast = _C.autocast_state(), _C.cuda_autocast_state()
        _C.set_autocast_state(*self.autocast)
        _C.set_cuda_autocast_state(*self.cuda_autocast)
        try:
            with fork_rng(enabled=self.random is not None):
                if self.random is not None:
                    set_rng_state(self.random)
                for generator, state in self.others:
                    generator.set_state(state)
                yield
        finally:
            _C.set_autocast_state(*autocast)
            _C.set_cuda_autocast_state(*cuda_autocast)
            if not autocast[0]:
                _C.clear_autocast_cache()  # converted weights live as long as the outermost scope


# ---- without reentry -----------------------------------------------------------------------------------------


class _Stop(BaseException):
    """Everything needed has been computed again; not an Exception, so that no function of the user's stops it."""


class _Place:
    """Where a tensor would have been saved; holds it again, per backward pass, once it was recomputed."""

    __slots__ = ("__weakref__", "description", "frame", "index", "seen", "values")

    def __init__(self, frame, index, description):
        self.frame, self.index, self.description = frame, index, description
        self.values, self.seen = {}, set()


class _Input:
    """One argument of the function; a tensor goes through the saved-tensor hooks that were active around the call."""

    def __init__(self, value):
        self.tensor = isinstance(value, _C.Tensor)
        self.hooks = _C.top_saved_hooks() if self.tensor else None
        self.version = value._version if self.tensor and not value.is_inference() else None
        self.requires_grad = self.tensor and value.requires_grad
        self.value = self.hooks[0](value.detach()) if self.hooks else value

    def get(self):
        if not self.tensor:
            return self.value
        if self.hooks:
            return self.hooks[1](self.value).detach().requires_grad_(self.requires_grad)
        if self.version is not None and self.value._version != self.version:
            raise RuntimeError(
                f"checkpoint: an argument of the function, {self.value.dtype} {list(self.value.shape)}, was saved at "
                f"version {self.version} and has been changed in place since (version {self.value._version}); "
                "computing again would give something else. Change a clone instead")
        return self.value.detach().requires_grad_(self.requires_grad)


def _describe(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


def _nothing(_):
    return None


_DESCRIPTIONS = {"default": _describe, "none": _nothing}


class _Frame:
    """One checkpointed call: how to run it again, and the places of the tensors it would have saved."""

    def __init__(self, function, args, kwargs, state, context, describe, early_stop, log):
        self.function = function
        self.args = [_Input(a) for a in args]
        self.kwargs = {name: _Input(a) for name, a in kwargs.items()}
        self.state, self.context, self.describe, self.early_stop = state, context, describe, early_stop
        self.first_log = log
        self.places, self.done = [], set()
        self.ended = False  # the first run: a gradient that the function itself asks for makes a second one before

    def pack(self, tensor):
        place = _Place(self, len(self.places), self.describe(tensor))
        self.places.append(weakref.ref(place))
        return place

    def unpack(self, place):
        inside = _C.current_pass()
        key = GraphExecGroup._open[-1].key if GraphExecGroup._open else inside or object()
        if key not in self.done:
            self._run_again(key)
            if inside:
                self.done.add(key)
                _C.queue_callback(lambda: self.done.discard(key))
        if key not in place.values:
            if key in place.seen:
                raise CheckpointError("checkpoint: a saved tensor was asked for twice; read ctx.saved_tensors once "
                                      "per backward and keep the result")
            raise CheckpointError("checkpoint: a saved tensor is not there: it was handed out before, or the second "
                                  "run did not compute it")
        place.seen = {key}
        return place.values.pop(key)

    def _run_again(self, key):
        count = 0
        found = {}

        def pack(tensor):
            nonlocal count
            if count >= len(self.places):
                count += 1
                return tensor
            place = self.places[count]()
            found[count] = self.describe(tensor)
            if place is not None:
                place.values[key] = tensor.detach()
            count += 1
            if self.early_stop and count == len(self.places):
                raise _Stop
            return tensor
        log = _OpLog() if self.first_log is not None else nullcontext()
        try:
            with enable_grad(), self.state.again(), self.context, log, saved_tensors_hooks(pack, lambda t: t):
                self.function(*(a.get() for a in self.args), **{k: a.get() for k, a in self.kwargs.items()})
        except _Stop:
            pass
        self._compare(count, found, log)

    def _compare(self, count, found, log):
        if count < len(self.places) or (self.ended and count > len(self.places)):
            raise CheckpointError(
                f"checkpoint: the function saved {len(self.places)} tensors for backward in its first run and {count} "
                "in its second; it must do the same both times" + self._detail(log))
        lines = []
        for k, ref in enumerate(self.places):
            place = ref()
            if place is not None and place.description != found[k]:
                lines.append(f"  tensor {k}: first {place.description}, then {found[k]}")
        if lines:
            raise CheckpointError("\n".join(["checkpoint: the function saved other tensors in its second run:", *lines])
                                  + self._detail(log))

    def _detail(self, log):
        if self.first_log is None:
            return _TIP
        first, second = self.first_log.lines, log.lines
        at = next((k for k, (a, b) in enumerate(_padded(first, second)) if a != b), -1)
        lines = [f"  {k:4} {a:40} {b}" + ("   <- differs from here" if k == at else "")
                 for k, (a, b) in enumerate(_padded(first, second))]
        return "\noperators of the first run, and of the second:\n" + "\n".join(lines)


def _padded(a, b):
    n = max(len(a), len(b))
    return zip(a + ["-"] * (n - len(a)), b + ["-"] * (n - len(b)), strict=True)


class _OpLog(TorchDispatchMode):
    """Names and shapes of the operators that run inside."""

    def __init__(self):
        self.lines = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        shapes = ", ".join(str(list(a.shape)) for a in args if isinstance(a, _C.Tensor))
        self.lines.append(f"{func.name}({shapes})")
        return func(*args, **(kwargs or {}))


def _without_reentry(function, args, kwargs, keep_random, context_fn, determinism_check, debug, early_stop):
    if determinism_check not in _DESCRIPTIONS:
        raise ValueError(f"checkpoint: determinism_check must be one of {list(_DESCRIPTIONS)}, got "
                         f"{shown(determinism_check)}")
    debug = debug if _debug[-1] is None else _debug[-1]
    if debug and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug=True brings a context of its own and cannot be used with context_fn")
    forward_context, again_context = context_fn()
    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    log = _OpLog() if debug else None
    frame = _Frame(function, args, kwargs, _State(keep_random), again_context, _DESCRIPTIONS[determinism_check],
                   early_stop and _early_stop[-1], log)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context, log or nullcontext():
        result = function(*args, **kwargs)
    frame.ended = True
    return result


# ---- with reentry --------------------------------------------------------------------------------------------


def check_backward_validity(inputs):
    """Warns when no input wants a gradient: then the reentrant form gives none."""
    if not any(t.requires_grad for t in inputs if isinstance(t, _C.Tensor)):
        warnings.warn("checkpoint: no input requires grad, so none will get a gradient; with use_reentrant=False "
                      "parameters inside the function still do", stacklevel=2)


def detach_variable(inputs):
    """The tensors among `inputs` without their history, wanting gradients as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"checkpoint: the inputs must come in a tuple, got {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, _C.Tensor) else x for x in inputs)


class CheckpointFunction(Function):
    """The reentrant form: forward without a graph, and in backward a whole pass over a graph made then."""

    @staticmethod
    def forward(ctx, function, keep_random, *args):
        check_backward_validity(args)
        ctx.function, ctx.state = function, _State(keep_random)
        ctx.args = [None if isinstance(a, _C.Tensor) else a for a in args]
        ctx.places = [k for k, a in enumerate(args) if isinstance(a, _C.Tensor)]
        ctx.save_for_backward(*(args[k] for k in ctx.places))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if _C.pass_is_limited():
            raise RuntimeError(
                "checkpoint: with use_reentrant=True neither grad() nor backward(inputs=...) can reach through it; "
                "pass use_reentrant=False, or call backward() without inputs")
        args = list(ctx.args)
        for k, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[k] = tensor
        args = detach_variable(tuple(args))
        with enable_grad(), ctx.state.again():
            outputs = ctx.function(*args)
        outputs = (outputs,) if isinstance(outputs, _C.Tensor) else outputs
        pairs = [(y, g) for y, g in zip(outputs, grads, strict=True)
                 if isinstance(y, _C.Tensor) and y.requires_grad]
        if not pairs:
            raise RuntimeError("checkpoint: no output requires grad, so there is nothing to compute again; call the "
                               "function without checkpoint")
        backward(*zip(*pairs, strict=True))
        return None, None, *(a.grad if isinstance(a, _C.Tensor) else None for a in args)


# ---- for users -----------------------------------------------------------------------------------------------


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default",
               debug=False, early_stop=True, **kwargs):
    """function(*args, **kwargs), whose intermediate results are computed again in backward instead of being kept.

    `preserve_rng_state=False` (a keyword) spares keeping the random state: then dropout draws anew.

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> x = flambeau.ones(3, requires_grad=True)
    >>> checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([-2.4783, -2.4783, -2.4783])
    """
    if use_reentrant is None:
        warnings.warn("checkpoint: use_reentrant is missing, so the reentrant form runs; pass use_reentrant=False "
                      "(recommended) or True", stacklevel=2)
        use_reentrant = True
    keep_random = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _without_reentry(function, args, kwargs, keep_random, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError("checkpoint: context_fn and debug need use_reentrant=False")
    return CheckpointFunction.apply(function, keep_random, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A chain of modules in `segments` pieces, each checkpointed but the last.

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import checkpoint_sequential
    >>> chain = [flambeau.sin, flambeau.exp, flambeau.cos]
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> checkpoint_sequential(chain, 2, x, use_reentrant=False)
    tensor([-0.6809], grad_fn=<CosBackward0>)
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = max(len(functions) // segments, 1)

    def run(start, end):
        def part(x):
            for f in functions[start:end]:
                x = f(x)
            return x
        return part
    start = 0
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(start + size if segments > 1 else 0, len(functions))(input)
