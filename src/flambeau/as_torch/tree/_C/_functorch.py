"""torch._C._functorch: which level of `vmap` or another transform a tensor is of, and what lies below it."""

from ...._transforms.batched import Batched
from ...._transforms.levels import Wrapper, stack
from ...._transforms.vmap import _add_batch_dim as _add_batch_dim
from ...._transforms.vmap import _maybe_remove_batch_dim


def is_batchedtensor(tensor):
    """Whether it is a tensor inside `vmap`, of its innermost level."""
    return isinstance(tensor, Batched)


def is_functorch_wrapped_tensor(tensor):
    """Whether it is a tensor inside any transform."""
    return isinstance(tensor, Wrapper)


def is_legacy_batchedtensor(tensor):
    """Of an older `vmap`, which is not here: never."""
    return False


def get_unwrapped(tensor):
    """The tensor one level below.

    >>> import flambeau
    >>> from flambeau.as_torch.tree._C._functorch import get_unwrapped
    >>> shapes = []
    >>> _ = flambeau.func.vmap(lambda x: shapes.append(get_unwrapped(x).shape) or x)(flambeau.ones(3, 2))
    >>> shapes
    [torch.Size([3, 2])]
    """
    return tensor.value if isinstance(tensor, Wrapper) else tensor


def maybe_get_level(tensor):
    """The number of its level, the outermost being 1; -1 outside of all."""
    return tensor.frame.level if isinstance(tensor, Wrapper) else -1


def maybe_get_bdim(tensor):
    """The dimension of the batch in what lies below; -1 where there is none."""
    return 0 if isinstance(tensor, Batched) and tensor.batched else -1


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """Without the level, its batch in dimension `out_dim`."""
    return _maybe_remove_batch_dim(stack.frames[level - 1].name, tensor, level, batch_size, out_dim)
