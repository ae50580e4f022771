"""Recomputation: where memory is tightest, values that are cheap to compute again are not kept for later.

    h = linear(x);  y = gelu(h);  …;  linear_backward(g, y);  gelu_backward(g, h)
    h = linear(x);  y = gelu(h);  …;  z = gelu(h);  linear_backward(g, z);  gelu_backward(g, h)

A training step is at its peak where the forward pass ends. What was made before it and is asked for after it is made a
second time right before that, if what it is made of is there anyway (Chen et al. 2016; here nothing costlier than a
normalisation is ever repeated). Results have the same bits. Only for programs that hold more than 16 MB at once, and
whose calls overwrite nothing.
"""

from math import inf
from operator import getitem

from ...ops.kinds import OPS
from .._fusion import steps_of
from .._writer import has_effect, value_of
from .matching import calls, is_value

_LEAST_PEAK = 16 << 20     # bytes
_LEAST_SHARE = 1 / 1000    # of the peak, that a value must hold
_CHEAP = {OPS[name] for name in ("layer_norm", "native_batch_norm", "group_norm", "reshape", "clone", "_to_copy",
                                 "dropout_scale", "dropout_forward")}
_LONGEST = 3               # calls that one value may take


def recompute(graph):
    """Values that are held over the peak, the largest first."""
    if sum(_bytes(node) for node in graph.nodes if is_value(node)) < _LEAST_PEAK:
        return
    lives = Lives(graph)
    if lives.peak < _LEAST_PEAK or any(calls(node, "_convolution_tail") for node in graph.nodes):
        return
    for value in lives.across():
        late = [user for user in lives.users(value) if lives.order[user] > lives.at]
        first = min(late, key=lives.place.get)
        anew = _calls_for(value, first, lives, _LONGEST)
        if anew is not None:
            _make_again(value, anew, first, late, lives)


class Lives:
    """When each value of a graph is made and read.

    order: the step in which a call runs; what is read in that step alone takes no memory. place: in the graph.
    peak: the most bytes that are held, after step `at`.
    """

    def __init__(self, graph):
        nodes = list(graph.nodes)
        self.place = {node: k for k, node in enumerate(nodes)}
        steps = steps_of(graph)
        self.order = {node: k for k, (_, together) in enumerate(steps) for node in together}
        self.order[nodes[-1]] = len(steps)
        self.writes = [(self.place[node], node.meta["writes"]) for node in nodes if "writes" in node.meta]
        for node in nodes:
            if node.target is getitem and "use" in node.meta:
                self.order[node] = self.order[node.args[0]]
        self.last = {node: max(map(self.order.get, self.users(node)), default=self.order[node])
                     for node in nodes if is_value(node)}
        for node in nodes[-1].all_input_nodes:
            self.last[value_of(node)] = inf
        change = [0] * (len(steps) + 1)
        for value, last in self.last.items():
            if last > self.order[value]:
                change[self.order[value]] += _bytes(value)
                change[min(last + 1, len(steps))] -= _bytes(value)
        self.peak, held = 0, 0
        for k, more in enumerate(change):
            held += more
            if held > self.peak:
                self.peak, self.at = held, k

    def users(self, value):
        """The calls that read it, themselves or through a view, and the output."""
        found = []
        for user in value.users:
            found += self.users(user) if "view" in user.meta else [user]
        return found

    def stays(self, source, value, first):
        """Whether nothing writes to what comes from outside between the making of a value and another call."""
        slot = source.meta["use"].slot
        return not any(slot in slots and self.place[value] < place < self.place[first] for place, slots in self.writes)

    def across(self):
        """Values made before the peak and read after it, the largest first."""
        least = self.peak * _LEAST_SHARE
        found = [v for v, last in self.last.items() if self.order[v] <= self.at < last < inf and _bytes(v) >= least]
        return sorted(found, key=_bytes, reverse=True)


def _bytes(value):
    use = value.meta["use"]
    return use.numel * use.dtype.itemsize


def _call_of(value):
    return value.args[0] if value.target is getitem else value


def _calls_for(value, first, lives, most):
    """The values to make again, in order, so that this one is there when `first` is called; None: it does not pay."""
    call = _call_of(value)
    if not _is_cheap(value, call):
        return None
    anew = []
    for source in _sources(call):
        if source in anew:
            continue
        if not is_value(source):
            if not lives.stays(source, value, first):
                return None
        elif lives.last[source] < lives.order[first]:
            before = _calls_for(source, first, lives, most - 1) if most > 1 else None
            if before is None:
                return None
            anew += before
    return [*anew, value] if len(anew) < most else None


def _sources(call):
    """What it is made again from: of batch norm, without the statistics that it moves."""
    read = [a for a in call.args[:3] if a is not None] if "writes" in call.meta else call.all_input_nodes
    read = [value_of(node) for node in read]
    return [*read, _mask(call)] if calls(call, "dropout_forward") else read


def _mask(dropout):
    return next((user for user in dropout.users if user.args[1] == 1), None)


def _is_cheap(value, call):
    if calls(call, "dropout_forward") and _mask(call) is None:
        return False
    if call.target not in _CHEAP and getattr(call.target, "kind", None) != "elementwise":
        return False
    if value is not call and value.args[1] != 0:
        return False  # a mask, or a statistic: small, and drawn or written only once
    return not has_effect(call) or calls(call, "native_batch_norm") or calls(call, "dropout_forward")


def _make_again(value, anew, first, late, lives):
    graph, copies, order = value.graph, {}, lives.order[first]

    def again(node):
        """The node in whose place it is made again, or it is seen again through a view."""
        source = value_of(node)
        if source not in copies:
            return node
        if source is node:
            return copies[source]
        return graph.node_copy(node, again)

    with graph.inserting_before(first):
        for each in anew:
            copies[each] = _repeat(graph, each, again)
            lives.order[copies[each]] = lives.last[copies[each]] = order
            lives.place[copies[each]] = lives.place[first]
    for user in late:
        with graph.inserting_before(user):
            for node in set(user.all_input_nodes):
                if value_of(node) is value:
                    user.replace_input_with(node, again(node))
    lives.last[copies[value]] = lives.last[value]
    lives.last[value] = max((lives.order[u] for u in lives.users(value)), default=lives.order[value])
    for source in {s for each in anew for s in _sources(_call_of(each)) if is_value(s) and s not in copies}:
        lives.last[source] = max(lives.last[source], order)


def _repeat(graph, value, again):
    """The value, made by another call."""
    call = _call_of(value)
    if calls(call, "dropout_forward"):
        made = graph.call_function(OPS["dropout_scale"], (again(call.args[0]), _mask(call), call.args[1]))
        made.meta.update(value.meta)
        return made
    copy = graph.node_copy(call, again)
    if "writes" in call.meta:  # batch norm
        copy.args = (*copy.args[:3], None, None, *copy.args[5:])  # the running statistics have moved already
        del copy.meta["writes"]
    if value is call:
        return copy
    return graph.node_copy(value, lambda _: copy)
