"""nn: layers, losses, initial values and what else networks are made of."""

from . import attention as attention
from . import functional as functional
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
