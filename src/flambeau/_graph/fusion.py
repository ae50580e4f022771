"""Which pointwise calls run as one group: those of one shape that share values, with nothing between them."""

_MOST_MEMORY = 14  # inputs and results of a group
_MOST_CALLS = 40


class Group:
    """Calls that will run together.

    `shape` is the iteration space. A call of another shape may join where it reads and writes its memory from end to
    end (it is flat) and has as many elements.
    """

    def __init__(self, number, shape, numel, flat, reads, makes):
        self.calls, self.leader, self.shape, self.numel, self.flat = [number], number, shape, numel, flat
        self.reads, self.makes = reads, makes

    def fits(self, other):
        """Whether the two can be one."""
        same = self.shape == other.shape or (self.numel == other.numel and (self.flat or other.flat))
        outside = (self.reads | other.reads) - self.makes - other.makes
        return same and len(self.calls) + len(other.calls) <= _MOST_CALLS and len(outside) + 3 <= _MOST_MEMORY

    def take(self, other):
        """Makes `other` part of this group."""
        if self.flat and not other.flat:
            self.leader, self.shape = other.leader, other.shape
        self.calls = sorted(self.calls + other.calls)
        self.flat = self.flat and other.flat
        self.makes |= other.makes
        self.reads = (self.reads | other.reads) - self.makes


def steps_of(program):
    """The calls in the order they run: (leader, calls), where several calls run as one over the leader's shape.

    A group waits as long as nobody needs it. Groups that wait never read from each other.
    """
    needed = _needed(program)
    steps, waiting, home = [], [], {}  # home: slot -> the group, among those that wait, that makes it

    def close(group):
        waiting.remove(group)
        for slot in group.makes:
            del home[slot]
        steps.append((group.leader, group.calls))

    for number, call in enumerate(program.calls):
        if number not in needed:
            continue
        reads = {program.uses[u].slot for u in call.uses()}
        if not call.elementwise:
            for slot in reads:
                if slot in home:
                    close(home[slot])
            steps.append((number, [number]))
            continue
        alone = group = _alone(program, number, call, reads)
        makers = {id(home[slot]): home[slot] for slot in reads if slot in home}
        for maker in makers.values():
            if _reads_as_made(program, call, maker, alone) and maker.fits(group):
                waiting.remove(maker)
                maker.take(group)
                group = maker
            else:
                close(maker)
        for other in list(waiting):
            if other.reads & group.reads and other.fits(group):
                waiting.remove(other)
                other.take(group)
                group = other
        waiting.append(group)
        for slot in group.makes:
            home[slot] = group
    while waiting:
        close(waiting[0])
    return steps


def _alone(program, number, call, reads):
    result = program.uses[call.results[0]]
    uses = [program.uses[u] for u in call.uses()]
    flat = result.contiguous and all(u.contiguous and u.numel in (result.numel, 1) for u in uses)
    return Group(number, result.sizes, result.numel, flat, reads, {result.slot})


def _reads_as_made(program, call, maker, alone):
    """Whether each of the group's values is read in the layout it was made in, element by element."""
    for u in call.uses():
        use = program.uses[u]
        if use.slot not in maker.makes:
            continue
        made = program.result(use.slot)
        same = (use.sizes, use.strides, use.offset, use.dtype) == (made.sizes, made.strides, made.offset, made.dtype)
        along = use.sizes == alone.shape or (alone.flat and use.numel == alone.numel)
        if not along or not (same or (use.contiguous and made.contiguous and use.dtype == made.dtype)):
            return False
    return True


def _needed(program):
    """The calls without which a wanted result would be missing."""
    needed, slots = set(), set(program.wanted)
    for number in range(len(program.calls) - 1, -1, -1):
        call = program.calls[number]
        if any(program.uses[u].slot in slots for u in call.results):
            needed.add(number)
            slots.update(program.uses[u].slot for u in call.uses())
    return needed
