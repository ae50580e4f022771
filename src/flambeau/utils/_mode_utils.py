"""What programs of tensor subclasses take from a private place of PyTorch's: a way past their own dispatch."""

import contextlib

from .._tensor.overriding import disable_torch_dispatch


@contextlib.contextmanager
def no_dispatch():
    """A context in which `__torch_dispatch__` is not asked.

    >>> import flambeau
    >>> from flambeau.utils._mode_utils import no_dispatch
    >>> class Doubled(flambeau.Tensor):
    ...     @classmethod
    ...     def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
    ...         with no_dispatch():
    ...             return func(*args, **(kwargs or {})) * 2
    >>> flambeau.ones(2).as_subclass(Doubled).abs().tolist()
    [2.0, 2.0]
    """
    with disable_torch_dispatch():
        yield


def all_same_mode(modes):
    """Whether they are one object.

    >>> from flambeau.utils._mode_utils import all_same_mode
    >>> mode = object()
    >>> all_same_mode([mode, mode]), all_same_mode([mode, object()])
    (True, False)
    """
    return all(mode is modes[0] for mode in modes)
