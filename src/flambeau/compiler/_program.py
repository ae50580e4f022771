"""A captured program, as native code describes it: calls, the tensors they see, and which results are wanted."""

from typing import NamedTuple


class Use(NamedTuple):
    """A tensor as a call sees it: a layout of a slot (one value, in memory that comes from outside or is made)."""

    slot: int
    dtype: object
    sizes: tuple
    strides: tuple
    offset: int
    flags: int
    device: object

    @property
    def numel(self):
        n = 1
        for size in self.sizes:
            n *= size
        return n

    @property
    def contiguous(self):
        """Whether its elements lie one after another in row-major order, from the start of its slot."""
        expected = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides)):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return self.offset == 0


class Call(NamedTuple):
    """One call: `args` in the schema's order, where tensors are ("use", k), lists of them ("uses", [k, …]), and values
    that a plan may not rely on ("given", position, value). `writes`: slots from outside that it writes to. `stored`: it
    writes its result where the first argument lies."""

    op: object
    args: tuple
    results: tuple
    writes: tuple
    stored: bool

    def uses(self):
        """The uses it reads, in order."""
        for arg in self.args:
            if type(arg) is tuple and arg[0] == "use":
                yield arg[1]
            elif type(arg) is tuple and arg[0] == "uses":
                yield from (k for k in arg[1] if k >= 0)


class Program:
    """What native code has written down (bind/graph_plan.cpp says in which form)."""

    def __init__(self, described):
        calls, uses, self.made_by, wanted, self.fast, self.on_cpu = described
        self.calls = [Call(*c) for c in calls]
        self.uses = [Use(*u) for u in uses]
        self.wanted = set(wanted)

    def result(self, slot):
        """The use as which a slot was made."""
        for k in self.calls[self.made_by[slot]].results:
            if self.uses[k].slot == slot:
                return self.uses[k]
        raise LookupError(slot)
