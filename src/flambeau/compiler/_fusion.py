"""Which pointwise calls run as one group: those of one shape that share values, with nothing between them."""

from operator import getitem

from ._writer import value_of

_MOST_MEMORY = 14  # inputs and results of a group
_MOST_CALLS = 40


class Group:
    """Calls that will run together.

    `shape` is the iteration space. A call of another shape may join where it reads and writes its memory from end to
    end (it is flat) and has as many elements.
    """

    def __init__(self, node, reads):
        use = node.meta["use"]
        inputs = [n.meta["use"] for n in node.all_input_nodes]
        self.calls, self.leader, self.shape, self.numel = [node], node, use.sizes, use.numel
        self.flat = use.contiguous and all(u.contiguous and u.numel in (use.numel, 1) for u in inputs)
        self.reads, self.makes = reads, {node}

    def fits(self, other):
        """Whether the two can be one."""
        same = self.shape == other.shape or (self.numel == other.numel and (self.flat or other.flat))
        outside = (self.reads | other.reads) - self.makes - other.makes
        return same and len(self.calls) + len(other.calls) <= _MOST_CALLS and len(outside) + 3 <= _MOST_MEMORY

    def take(self, other, order):
        """Makes `other` part of this group."""
        if self.flat and not other.flat:
            self.leader, self.shape = other.leader, other.shape
        self.calls = sorted(self.calls + other.calls, key=order.get)
        self.flat = self.flat and other.flat
        self.makes |= other.makes
        self.reads = (self.reads | other.reads) - self.makes


def steps_of(graph):
    """The calls in the order they run: (leader, calls), where several calls run as one over the leader's shape.

    A group waits as long as nobody needs it. Groups that wait never read from each other.
    """
    steps, waiting, home = [], [], {}  # home: value -> the group, among those that wait, that makes it
    order = {node: k for k, node in enumerate(graph.nodes)}

    def close(group):
        waiting.remove(group)
        for value in group.makes:
            del home[value]
        steps.append((group.leader, group.calls))

    for node in graph.nodes:
        if node.op != "call_function" or "view" in node.meta or node.target is getitem:
            continue
        reads = {value_of(n) for n in node.all_input_nodes}
        if node.target.kind != "elementwise":
            for value in reads:
                if value in home:
                    close(home[value])
            steps.append((node, [node]))
            continue
        group = alone = Group(node, reads)
        for maker in {id(home[v]): home[v] for v in reads if v in home}.values():
            if _reads_as_made(node, maker, alone) and maker.fits(group):
                waiting.remove(maker)
                maker.take(group, order)
                group = maker
            else:
                close(maker)
        for other in list(waiting):
            if other.reads & group.reads and other.fits(group):
                waiting.remove(other)
                other.take(group, order)
                group = other
        waiting.append(group)
        for value in group.makes:
            home[value] = group
    while waiting:
        close(waiting[0])
    return steps


def _reads_as_made(node, maker, alone):
    """Whether each of the group's values is read in the layout it was made in, element by element."""
    for n in node.all_input_nodes:
        if value_of(n) not in maker.makes:
            continue
        use, made = n.meta["use"], value_of(n).meta["use"]
        same = use[1:5] == made[1:5]
        along = use.sizes == alone.shape or (alone.flat and use.numel == alone.numel)
        if not along or not (same or (use.contiguous and made.contiguous and use.dtype == made.dtype)):
            return False
    return True
