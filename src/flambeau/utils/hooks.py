"""The handle that every `register_*hook` returns, and what a hook may say of itself."""

import weakref
from collections import OrderedDict


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
        self.hooks_dict_ref = weakref.ref(hooks)
        self._marks = [weakref.ref(table) for table in extra]

    def remove(self):
        """Takes the hook away; nothing happens when it is gone already."""
        for table in self._tables():
            table.pop(self.id, None)

    def _tables(self):
        found = [ref() for ref in (self.hooks_dict_ref, *self._marks)]
        return [table for table in found if table is not None]

    def __getstate__(self):
        marks = [ref() for ref in self._marks]
        return self.hooks_dict_ref(), self.id, [table for table in marks if table is not None]

    def __setstate__(self, state):
        hooks, self.id, marks = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self._marks = [weakref.ref(table) for table in marks]
        RemovableHandle._next_id = max(RemovableHandle._next_id, self.id + 1)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def unserializable_hook(f):
    """Decorator: says of a tensor's hook that it is meant to be left behind where the tensor is saved or sent.

    Hooks of tensors never go along here; PyTorch warns of those that do not say so.

    >>> from flambeau.utils.hooks import unserializable_hook
    >>> @unserializable_hook
    ... def halved(g):
    ...     return g / 2
    >>> halved.__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True
    return f
