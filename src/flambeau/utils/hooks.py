"""The handle that every `register_*hook` returns."""

import weakref


class RemovableHandle:
    """`remove()` takes the hook away again; also a context manager that does so at its end.

    >>> import flambeau
    >>> x = flambeau.ones(1, requires_grad=True)
    >>> handle = x.register_hook(lambda g: g * 2)
    >>> handle.remove()
    >>> x.sum().backward()
    >>> x.grad
    tensor([1.])
    """

    _next_id = 0

    def __init__(self, hooks, *, extra=()):
        self.id = RemovableHandle._next_id
        RemovableHandle._next_id += 1
        # weak: a handle does not keep what it hooks into alive
        self._tables = [weakref.ref(table) for table in (hooks, *extra)]

    def remove(self):
        """Takes the hook away; nothing happens when it is gone already."""
        for ref in self._tables:
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()
