"""detach() as a step of a program: gradients of the program end there, as those of its module do."""

import contextlib

import flambeau

from .. import _C
from .._subclasses.fake import FakeTensor, detaching
from ..fx.experimental.proxy_tensor import get_innermost_proxy_mode


def own(x):
    """A tensor like `x` that is another: a trace tells tensors apart by their memory."""
    if isinstance(x, FakeTensor):
        return x._again(x.meta.detach())
    return x.clone() if isinstance(x, _C.Tensor) else x


@contextlib.contextmanager
def detaching_steps():
    """A context in which detach() and `.data` of a tensor without values are steps of what records."""
    before = detaching.set(_detached)
    try:
        yield
    finally:
        detaching.reset(before)


def _detached(tensor):
    """A tensor that a step of the trace gives; where an operator runs inside, the tensor's own memory."""
    mode = get_innermost_proxy_mode()
    if mode is None:
        return _C.Tensor.detach(tensor)
    made = own(tensor)
    node = mode.tracer.create_node("call_function", flambeau.detach, (mode.tracer.of_value(tensor),), {})
    return mode.track(made, node)
