"""torch._guards: which mode of fake tensors programs run in."""

from ..._subclasses.fake_tensor import FakeTensorMode
from ..._tensor.overriding import dispatch_modes


def active_fake_mode():
    """The innermost mode of fake tensors that this thread is in; None outside of all."""
    return next((mode for mode in reversed(dispatch_modes()) if isinstance(mode, FakeTensorMode)), None)
