"""jit.annotations: types that only annotations use."""

import typing

# packages written before Python had them as list, dict and | take them from here
Any, Optional, Union = typing.Any, typing.Optional, typing.Union
Dict, List, Tuple = (getattr(typing, name) for name in ("Dict", "List", "Tuple"))


class Repeated(typing.NamedTuple):
    """Of a list in annotations: one value may stand for so many."""

    count: int


class _BroadcastingList:
    """`BroadcastingList2[int]` in annotations: a number, or that many of them."""

    def __init__(self, count):
        self.count = count

    def __getitem__(self, kind):
        return typing.Annotated[list[kind], Repeated(self.count)]


BroadcastingList1, BroadcastingList2, BroadcastingList3 = map(_BroadcastingList, (1, 2, 3))
