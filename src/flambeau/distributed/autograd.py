"""Backward passes through calls on other processes, which are not there: see `distributed.rpc`.

>>> from flambeau.distributed import autograd
>>> autograd.is_available()
False
"""

from .._absent import refusals


def is_available():
    """Whether a backward pass can go through calls on other processes: no."""
    return False


globals().update(refusals("distributed.autograd", "functions are not called on other processes; collectives of "
                          "flambeau.distributed.nn.functional have gradients", """
    backward(context_id, roots, retain_graph=False) get_gradients(context_id) context
    """))
