"""torch._tensor: the class of tensors, and how those of other classes are put together from a pickle."""

from ..._C import Tensor as Tensor


def _rebuild_from_type_v2(func, new_type, args, state):
    """`func(*args)` as a tensor of a subclass, with the attributes in `state` ({name: value}, or that and slots)."""
    made = func(*args)
    if type(made) is not new_type:
        made = made.as_subclass(new_type)
    if getattr(new_type, "__setstate__", None) is not getattr(Tensor, "__setstate__", None):
        made.__setstate__(state)
        return made
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(made, name, value)
    return made
