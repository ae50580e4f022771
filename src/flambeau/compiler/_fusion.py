"""Which calls run as one group: pointwise ones of one shape that share values, and reductions along the rows of it."""

from operator import getitem

from .._C import float32, float64
from ._writer import value_of
from .passes.matching import arguments
from .passes.writes import store_of

_MOST_MEMORY = 14  # inputs and results of a group
_MOST_CALLS = 40
_FOLDS = ("sum", "mean", "amax", "amin")
_SHORTEST_ROW, _LONGEST_ROW = 32, 1 << 16


class Group:
    """Calls that will run together.

    `shape` is the iteration space. A call of another shape may join where it reads and writes its memory from end to
    end (it is flat) and has as many elements. In a group with reductions (`rows`), calls have its shape, or that of one
    number for each row.
    """

    def __init__(self, node, reads, rows):
        use = (node.args[0] if rows else node).meta["use"]
        inputs = [n.meta["use"] for n in node.all_input_nodes]
        self.calls, self.leader, self.shape, self.numel, self.rows = [node], node, use.sizes, use.numel, rows
        self.flat = use.contiguous and all(u.contiguous and u.numel in (use.numel, 1) for u in inputs)
        self.reads, self.makes = reads, {node}
        self.stores = set()  # slots from outside that results are written to
        self.constant = "constant" in node.meta

    def fits(self, other):
        """Whether the two can be one."""
        if self.constant != other.constant:
            return False
        if self.rows or other.rows:
            rows, rest = (self, other) if self.rows else (other, self)
            same = rest.shape == rows.shape or (not rest.rows and rest.shape in _per_row(rows.shape)
                                                and _stays_in_rows(rest))
        else:
            same = self.shape == other.shape or (self.numel == other.numel and (self.flat or other.flat))
        outside = (self.reads | other.reads) - self.makes - other.makes
        memory = len(outside) + len(self.stores | other.stores) + 3
        return same and len(self.calls) + len(other.calls) <= _MOST_CALLS and memory <= _MOST_MEMORY

    def may_store(self, store):
        """Whether a value of the group can be written there as it is computed."""
        use = store.use
        room = len(self.calls) < _MOST_CALLS and len(self.reads) + len(self.stores) + 4 <= _MOST_MEMORY
        fits = use.sizes == self.shape or (not self.rows and use.contiguous and use.numel == self.numel)
        return not self.constant and room and fits and all(v.meta["use"] == use for v in self.reads
                                     if v.op == "placeholder" and v.meta["use"].slot == use.slot)

    def take_store(self, store):
        """Makes the write part of this group."""
        self.calls.append(store.call)
        self.stores.add(store.use.slot)
        self.flat = self.flat and store.use.contiguous

    def reads_slots(self):
        """The memory from outside that it reads."""
        return {value.meta["use"].slot for value in self.reads if value.op == "placeholder"}

    def take(self, other, order):
        """Makes `other` part of this group."""
        if (other.rows and not self.rows) or (not self.rows and self.flat and not other.flat):
            self.leader, self.shape, self.numel = other.leader, other.shape, other.numel
        self.rows = self.rows or other.rows
        self.calls = sorted(self.calls + other.calls, key=order.get)
        self.flat = self.flat and other.flat and not self.rows
        self.makes |= other.makes
        self.stores |= other.stores
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
        seen = {value.meta["use"].slot for value in reads if value.op == "placeholder"}
        for group in [group for group in waiting if group.stores & seen]:
            close(group)
        store = store_of(node)
        if store and store.value in home and home[store.value].may_store(store):
            group = home[store.value]
            for other in [g for g in waiting if g is not group and store.use.slot in g.reads_slots()]:
                close(other)
            group.take_store(store)
            continue
        folds = _folds_rows(node)
        if node.target.kind != "elementwise" and not folds:
            for value in reads:
                if value in home:
                    close(home[value])
            for group in list(waiting):  # what reads memory before it is written to
                if "writes" in node.meta and group.reads_slots() & node.meta["writes"]:
                    close(group)
            steps.append((node, [node]))
            continue
        group = alone = Group(node, reads, folds)
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


def _per_row(shape):
    """The shapes of one number for each row."""
    return shape[:-1], (*shape[:-1], 1)


def _folds_rows(node):
    """Whether it reduces the last dimension of float32 or float64 numbers, in rows that are worth it."""
    if node.target.name not in _FOLDS:
        return False
    given = arguments(node)
    use, dim = given["self"].meta["use"], given["dim"]
    return (use.dtype in (float32, float64) and len(use.sizes) > 1 and given.get("dtype") is None
            and isinstance(dim, (list, tuple)) and list(dim) in ([-1], [len(use.sizes) - 1])
            and _SHORTEST_ROW <= use.sizes[-1] <= _LONGEST_ROW and use.strides[-1] == 1 and use.numel > use.sizes[-1]
            and all(use.strides))  # rows that are one in memory are added up another way


def _stays_in_rows(group):
    """Whether the calls of a group with a number for each row see nothing but such, and single numbers."""
    return all(n.meta["use"].sizes == node.meta["use"].sizes
               for node in group.calls for n in node.all_input_nodes if n.meta["use"].numel != 1)


def _reads_as_made(node, maker, alone):
    """Whether each of the group's values is read in the layout it was made in, element by element."""
    for n in node.all_input_nodes:
        if value_of(n) not in maker.makes:
            continue
        use, made = n.meta["use"], value_of(n).meta["use"]
        same = use[1:5] == made[1:5]
        along = use.sizes == alone.shape or (alone.flat and use.numel == alone.numel)
        if maker.rows and made.sizes == maker.shape:
            along = use.sizes == alone.shape == maker.shape
        elif maker.rows:  # a number for each row: among such, or along the rows
            among = use.sizes == alone.shape and alone.shape in _per_row(maker.shape)
            along = among or (alone.shape == maker.shape and use.sizes == _per_row(maker.shape)[1])
        if not along or not (same or (use.contiguous and made.contiguous and use.dtype == made.dtype)):
            return False
    return True
