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

T = typing.TypeVar("T")


def _copy_to_script_wrapper(fn):
    """Marks a method that a script would keep: there are none, so it is returned as it is."""
    return fn


class _BroadcastingList:
    """`BroadcastingList2[int]` in annotations: a number, or that many of them."""

    def __getitem__(self, kind):
        return list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
