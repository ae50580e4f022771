"""torch._jit_internal: what packages take from there instead of torch.jit."""

import typing

from ...jit import Final as Final
from ...jit import Future as Future
from ...jit import _overload as _overload
from ...jit import _overload_method as _overload_method
from ...jit import export as export
from ...jit import ignore as ignore
from ...jit import is_scripting as is_scripting
from ...jit import unused as unused
from ...jit.annotations import BroadcastingList1 as BroadcastingList1
from ...jit.annotations import BroadcastingList2 as BroadcastingList2
from ...jit.annotations import BroadcastingList3 as BroadcastingList3

T = typing.TypeVar("T")


def _copy_to_script_wrapper(fn):
    """Marks a method that a script would keep: there are none, so it is returned as it is."""
    return fn
