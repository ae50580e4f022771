"""jit.annotations: types that only annotations use."""

import typing

# packages written before Python had them as list, dict and | take them from here
Any, Optional, Union = typing.Any, typing.Optional, typing.Union
Dict, List, Tuple = (getattr(typing, name) for name in ("Dict", "List", "Tuple"))


class _BroadcastingList:
    """`BroadcastingList2[int]` in annotations: a number, or that many of them."""

    def __getitem__(self, kind):
        return list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
