"""jit.annotations: types that only annotations use."""


class _BroadcastingList:
    """`BroadcastingList2[int]` in annotations: a number, or that many of them."""

    def __getitem__(self, kind):
        return list[kind]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
