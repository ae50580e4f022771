"""nn: layers, losses, initial values and the other parts of networks."""

from .._shown import shown
from . import attention as attention
from . import functional as functional
from . import grad as grad
from . import init as init
from . import parallel as parallel
from . import utils as utils
from ._chunked_loss import LinearCrossEntropyOptions as LinearCrossEntropyOptions
from .modules import *  # noqa: F403  the list of layers stands in modules/__init__.py
from .modules import module as module
from .parallel import DataParallel as DataParallel
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter


def factory_kwargs(kwargs):
    """The options for making tensors (device, dtype, memory_format) among a module's keyword arguments.

    They stand there themselves or in a dict under "factory_kwargs"; anything else is an error.

    >>> import flambeau
    >>> flambeau.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": flambeau.float64}})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    options = dict(kwargs.get("factory_kwargs", {}))
    for name, value in kwargs.items():
        if name == "factory_kwargs":
            continue
        if name not in ("device", "dtype", "memory_format"):
            raise TypeError(f"unexpected kwargs {shown(name)}")
        if name in options:
            raise TypeError(f"{name} is given both as a keyword and in factory_kwargs; give it once")
        options[name] = value
    return options
