"""Whether a trace does what its module does: both are called with the same inputs and the same random numbers."""

import warnings

import flambeau

from .. import _C
from ..utils import _pytree
from ._state import TracerWarning, TracingCheckError


def name_of(function, kind):
    """The name of a function, or what it is called without one."""
    name = getattr(function, "__name__", kind)
    return name if name.isidentifier() else kind


def compared(function, made, inputs, tolerance, mod):
    """Calls both with each of the inputs, and warns where the results differ."""
    for args, kwargs in inputs:
        buffers = _buffers(mod)
        state = flambeau.get_rng_state()
        expected = _result(function, args, kwargs)
        after = _buffers(mod)
        end = flambeau.get_rng_state()
        _restored(mod, buffers)
        flambeau.set_rng_state(state)
        try:
            found = _result(made, args, kwargs)
        except Exception as error:
            raise TracingCheckError(f"jit.trace: the program fails where {name_of(function, 'the module')} does not: "
                                    f"{type(error).__name__}: {error}") from error
        finally:
            _restored(mod, after)
            flambeau.set_rng_state(end)
        _warn_of_differences(expected, found, tolerance)


def _buffers(mod):
    return {} if mod is None else {name: buffer.clone() for name, buffer in mod.named_buffers()}


def _restored(mod, values):
    if mod is not None:
        with flambeau.no_grad():
            for name, buffer in mod.named_buffers():
                if name in values:
                    buffer.copy_(values[name])


def _result(function, args, kwargs):
    def own(x):
        return x.detach().clone() if isinstance(x, _C.Tensor) else x

    with flambeau.no_grad():
        return function(*_pytree.tree_map(own, args), **_pytree.tree_map(own, kwargs))


def _warn_of_differences(expected, found, tolerance):
    pairs = zip(_pytree.tree_leaves(expected), _pytree.tree_leaves(found), strict=False)
    for k, (a, b) in enumerate(pairs):
        if not isinstance(a, _C.Tensor):
            continue
        same = isinstance(b, _C.Tensor) and a.shape == b.shape and a.dtype == b.dtype
        scale = max(1.0, a.abs().max().item()) if same and a.numel() and a.dtype.is_floating_point else 1.0
        if not (same and flambeau.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)):
            warnings.warn(f"jit.trace: result {k} of the program differs from the module's for the same inputs: it is "
                          "not the same each time (dropout in training mode, perhaps: call eval()), or depends on "
                          "something that the trace does not see", TracerWarning, stacklevel=4)
            return
