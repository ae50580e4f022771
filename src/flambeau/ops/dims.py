"""Dimensions as users count them, from the end where negative: checked and counted from 0, here and nowhere else."""

from .._C import wrap_dim as wrap_dim


def wrap_dims(dims, ndim, name):
    """Several of them, none twice; `name` is the operator's, for the message."""
    wrapped = [wrap_dim(d, ndim, name) for d in dims]
    if len(set(wrapped)) < len(wrapped):
        raise RuntimeError(f"{name}: dims {list(dims)} name a dimension twice")
    return wrapped
