"""torch._inductor: what programs ask of the part of PyTorch's compiler that writes code, which is not here."""

from ....compiler import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from . import config as config
from . import decomposition as decomposition
from . import exc as exc


def list_mode_options(mode=None, dynamic=None):
    """{mode of torch.compile: its settings}, or the settings of one mode. Here no mode changes anything.

    >>> from flambeau.as_torch.tree._inductor import list_mode_options
    >>> list_mode_options("default")
    {}
    """
    tuned = {"max_autotune": True, "coordinate_descent_tuning": True}
    modes = {"default": {}, "reduce-overhead": {"triton.cudagraphs": True}, "max-autotune-no-cudagraphs": tuned,
             "max-autotune": {**tuned, "triton.cudagraphs": True}}
    return modes if mode is None else modes[mode]
