"""What optimizers of other packages take from torch.optim.optimizer beside the class itself."""

import functools
from collections.abc import Iterable
from typing import Any, TypeAlias

import flambeau

from .. import _C

#: what an optimizer accepts as its parameters
ParamsT: TypeAlias = Iterable[_C.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, _C.Tensor]]


def _use_grad_for_differentiable(func):
    """Decorator of `step`: gradients are recorded in it if the optimizer's default `differentiable` says so."""
    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with flambeau.set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) where the user names neither: neither, since lists of tensors are no faster on a CPU."""
    return False, False


def _get_capturable_supported_devices(supports_xla=True):
    """The kinds of devices on which a step can be recorded: here there are none."""
    return []


def _get_value(x):
    """The number that a tensor holds; anything else as it is."""
    return x.item() if isinstance(x, _C.Tensor) else x


def _to_scalar(x):
    """A tensor with one element as one without dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, _C.Tensor) and x.dim() else x


def _stack_if_compiling(x):
    """The list itself: it would become a tensor in a compiled step."""
    return x


def _get_scalar_dtype(is_fused=None):
    """The dtype of step counts: float32, where a fused step or the default dtype asks for it, or float64."""
    wide = flambeau.get_default_dtype() is _C.float64 and not is_fused
    return _C.float64 if wide else _C.float32


def _view_as_real(params, *state_and_grads):
    """In each of the lists, complex tensors become their real views, where the parameter is complex."""
    for k, param in enumerate(params):
        if flambeau.is_complex(param):
            for tensors in (params, *state_and_grads):
                tensors[k] = flambeau.view_as_real(tensors[k])


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Decorator that keeps a step from being compiled where it cannot be: it is returned as it is."""
    return lambda func: func


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """{(device, dtype) of the first list's tensors: (the lists' parts, their places)}; every list goes along.

    >>> import flambeau
    >>> from flambeau.optim._for_others import _group_tensors_by_device_and_dtype as grouped
    >>> ((device, dtype), (lists, places)), = grouped([[flambeau.ones(1), flambeau.ones(2)], [1, 2]], True).items()
    >>> dtype, lists[1], places
    (torch.float32, [1, 2], [0, 1])
    """
    groups = {}
    for k, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, tensors in zip(lists, tensorlistlist):
            part.append(tensors[k] if tensors else None)
        if with_indices:
            places.append(k)
    return groups
