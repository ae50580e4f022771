"""Python's multiprocessing, with tensors that travel through queues and pipes by shared memory."""

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from .._tensor.shared_memory import get_all_sharing_strategies as get_all_sharing_strategies
from .._tensor.shared_memory import get_sharing_strategy as get_sharing_strategy
from .._tensor.shared_memory import set_sharing_strategy as set_sharing_strategy
from . import reductions as reductions
from .reductions import init_reductions as init_reductions
from .spawn import ProcessContext as ProcessContext
from .spawn import ProcessException as ProcessException
from .spawn import ProcessExitedException as ProcessExitedException
from .spawn import ProcessRaisedException as ProcessRaisedException
from .spawn import SpawnContext as SpawnContext
from .spawn import spawn as spawn
from .spawn import start_processes as start_processes

init_reductions()
reduction = _standard.reducer

__all__ = [  # noqa: PLE0604
    *_standard.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
    "start_processes"]
