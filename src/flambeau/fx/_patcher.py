"""Changes names while a program is traced, and puts back what was there."""

_MISSING = object()


class Patcher:
    """As a context: what `attribute` and `item` replaced inside comes back at its end, newest first."""

    def __init__(self):
        self._undo = []
        self._seen = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self._seen.clear()

    def attribute(self, owner, name, value):
        """Sets an attribute of a class or module."""
        before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        self._undo.append(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))

    def item(self, space, name, value):
        """Sets a key of a dict of globals, once."""
        if (id(space), name) in self._seen:
            return
        self._seen.add((id(space), name))
        before = space.get(name, _MISSING)
        space[name] = value
        self._undo.append(lambda: space.pop(name, None) if before is _MISSING else space.__setitem__(name, before))

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        """`attribute` under PyTorch's name; deduplicate: only once for the same class and name."""
        if not deduplicate or (id(cls), name) not in self._seen:
            self._seen.add((id(cls), name))
            self.attribute(cls, name, new_fn)

    def first_time(self, thing):
        """Whether this is asked for the first time about it."""
        new = id(thing) not in self._seen
        self._seen.add(id(thing))
        return new
