"""A tensor of a module, of whichever kind, in the place of another."""

from ... import _C
from ..._shown import shown
from ..modules.module import Module

_ABSENT = object()


def swap_tensor(module, name, tensor, allow_missing=False):
    """Puts a tensor where the module has one of this name, and returns the one that was there.

    What it was, a parameter, a buffer or an attribute, the new one is. With `allow_missing` there need not be one: the
    new tensor becomes an attribute, and a mark is returned that takes it away again when it is swapped in.

    >>> import flambeau
    >>> from flambeau.nn.utils._named_member_accessor import swap_tensor
    >>> layer = flambeau.nn.Linear(2, 1)
    >>> weight = swap_tensor(layer, "weight", flambeau.ones(1, 2))
    >>> layer.weight, swap_tensor(layer, "weight", weight)
    (tensor([[1., 1.]]), tensor([[1., 1.]]))
    """
    if not isinstance(module, Module):
        raise TypeError(f"swap_tensor: expected a Module, got {type(module).__name__}")
    if tensor is not _ABSENT and tensor is not None and not isinstance(tensor, _C.Tensor):
        raise TypeError(f"swap_tensor: {shown(name)} of {type(module).__name__} can be a Tensor or None, got "
                        f"{type(tensor).__name__}")
    if not name or "." in name:
        raise KeyError(f"swap_tensor: a name of the module itself is needed, without dots, got {shown(name)}")
    place = next((kept for kept in (module._parameters, module._buffers) if name in kept), vars(module))
    before = place[name] if name in place else getattr(module, name, _ABSENT)
    if before is _ABSENT and not allow_missing:
        raise AttributeError(f"swap_tensor: {type(module).__name__} has no tensor {shown(name)}")
    if before is not _ABSENT and before is not None and not isinstance(before, _C.Tensor):
        raise TypeError(f"swap_tensor: {shown(name)} of {type(module).__name__} is no Tensor but "
                        f"{type(before).__name__}")
    if tensor is _ABSENT:
        place.pop(name, None)
    else:
        place[name] = tensor
    return before
