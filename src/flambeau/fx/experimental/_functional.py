"""Writes as new values: while a graph is recorded, an operator that writes becomes one that makes a tensor.

A tensor that was written into has a newer value, which all later operators get in its place. A write through a view is
put into the value of the tensor that was viewed, by the view's own inverse (`select_scatter` for `select`), and views
of an older value are made again.

    y = x[0]                select = x[0]
    y.add_(1)               add = select + 1;  x1 = select_scatter(x, add, 0, 0)
    return x * 2            return x1 * 2
"""

import flambeau

from ... import _C
from ..._tensor.overriding import TorchDispatchMode
from ...func._functional_call import RECORDERS
from ...ops import OPS
from ...ops.kinds import writes_by_name
from ...utils._pytree import tree_map

#: writes whose result does not depend on what was there -> the value of a tensor like it
_WHOLE = {"fill_scalar_": lambda x, value: flambeau.full_like(x, value),
          "zero_": lambda x: flambeau.zeros_like(x),
          "copy_": lambda x, src, non_blocking=False: src.to(x.dtype).expand(x.shape)}
#: views -> the value of what was viewed, with another value in the place of the view
_INVERSE = {
    "select": lambda x, new, *place: flambeau.select_scatter(x, new, *place),
    "slice": lambda x, new, *place: flambeau.slice_scatter(x, new, *place),
    "diagonal": lambda x, new, *place: flambeau.diagonal_scatter(x, new, *place),
    "transpose": lambda x, new, a, b: new.transpose(a, b), "t": lambda x, new: new.t(),
    "permute": lambda x, new, dims: new.permute(_undone(dims)),
    "alias": lambda x, new: new, "detach": lambda x, new: new,
    **dict.fromkeys(("view", "reshape", "unsqueeze", "squeeze", "view_as", "flatten", "unflatten", "_unsafe_view"),
                    lambda x, new, *_: new.reshape(x.shape)),
}


def _undone(dims):
    """The order of dimensions that undoes another."""
    dims = [d % len(dims) for d in dims]
    return sorted(range(len(dims)), key=dims.__getitem__)


class _Memory:
    """The value of a tensor that others may view: how often it has changed, and what it is now."""

    def __init__(self, value):
        self.first, self.value, self.changes = value, value, 0


class _Known:
    """A tensor of the program: which memory it is of, by which views, and its value when it was asked last."""

    def __init__(self, tensor, memory, views=()):
        self.tensor, self.memory, self.views = tensor, memory, views
        self.value, self.changes = tensor, memory.changes


class Functional(TorchDispatchMode):
    """Inside, nothing that operators get is written into; `value(tensor)` is what a tensor would hold."""

    def __init__(self):
        super().__init__()
        self.known = {}  # id of a tensor -> its _Known, which keeps it

    def value(self, tensor):
        """What a tensor of the program holds now."""
        found = self.known.get(id(tensor)) or self._detached(tensor)
        if found is None:
            return tensor
        if found.changes != found.memory.changes:
            value = found.memory.value
            for view in found.views:
                value = view(value)
            found.value, found.changes = value, found.memory.changes
        return found.value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = tree_map(lambda x: self.value(x) if isinstance(x, _C.Tensor) else x, (tuple(args), kwargs or {}))
        values, named = given
        name = getattr(func, "name", "")
        if "out" in named:
            outs = (kwargs or {})["out"]
            made = func(*values, **{key: value for key, value in named.items() if key != "out"})
            many = isinstance(outs, (tuple, list))
            for out, value in zip(outs if many else [outs], made if many else [made], strict=True):
                self.write(out, value.to(out.dtype))
            return outs
        if isinstance(func, _C.Op) and args and isinstance(args[0], _C.Tensor) and self._writes(func):
            self.write(args[0], self._written(func, name, values, named))
            return args[0]
        result = func(*values, **named)
        if getattr(func, "kind", None) == "view" and isinstance(args[0], _C.Tensor):
            self._viewed(func, args[0], values, named, result)
        return result

    @staticmethod
    def _writes(func):
        return func.is_inplace or writes_by_name(func.name)

    def _written(self, func, name, values, named):
        """The value that a tensor has after a write."""
        x = values[0]
        if name in _WHOLE:
            return _WHOLE[name](x, *values[1:], **named)
        plain = OPS.get(name.removesuffix("_"))
        if plain is None:  # an operator that only writes: into a copy
            copy = x.clone()
            func(copy, *values[1:], **named)
            return copy
        return plain(*values, **named).to(x.dtype)

    def write(self, tensor, value):
        """Gives a tensor of the program another value."""
        found = self._of(tensor)
        if found.views and (tensor.requires_grad or found.memory.first.requires_grad):
            _refuse_hidden()
        chain = [found.memory.value]
        for view in found.views[:-1]:
            chain.append(view(chain[-1]))
        new = value
        for view, before in zip(reversed(found.views), reversed(chain), strict=False):
            new = view.put(before, new)
        found.memory.value = new
        found.memory.changes += 1
        found.value, found.changes = value, found.memory.changes

    def _detached(self, tensor):
        """The _Known of a tensor of which this one was detached, if it was written into; None otherwise."""
        place = _place(tensor)
        changed = (each for each in self.known.values() if each.memory.changes)
        found = next((each for each in changed if _place(each.tensor) == place), None)
        if found is not None:
            self.known[id(tensor)] = _Known(tensor, found.memory, found.views)
            self.known[id(tensor)].changes = -1
        return self.known.get(id(tensor))

    def _of(self, tensor):
        found = self.known.get(id(tensor)) or self._detached(tensor)
        if found is None:
            found = self.known[id(tensor)] = _Known(tensor, _Memory(tensor))
        return found

    def _viewed(self, func, source, values, named, result):
        """Notes of which memory the results of a view are."""
        of = self._of(source)
        for k, part in enumerate(result if isinstance(result, (tuple, list)) else [result]):
            if id(part) not in self.known:
                view = _View(func, values[1:], named, None if part is result else k)
                self.known[id(part)] = _Known(part, of.memory, (*of.views, view))


def _refuse_hidden():
    raise NotImplementedError("a write through a view of a value that requires gradients cannot be recorded with its "
                              "gradient; write into the whole tensor, or make a new one by flambeau.where, "
                              "select_scatter or slice_scatter")


def _place(tensor):
    """The elements of which memory a tensor has."""
    return _C.storage_id(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


class _View:
    """A view that can be made again of another value, and undone."""

    def __init__(self, func, args, kwargs, item):
        self.func, self.args, self.kwargs, self.item = func, args, kwargs, item

    def __call__(self, value):
        made = self.func(value, *self.args, **self.kwargs)
        return made if self.item is None else made[self.item]

    def put(self, before, new):
        """The value of what was viewed, with a new one in the place of the view."""
        inverse = _INVERSE.get(self.func.name.partition(".")[0]) if self.item is None and not self.kwargs else None
        if inverse is not None and new.dtype == before.dtype:
            return inverse(before, new, *self.args)
        copy = before.clone()
        self(copy).copy_(new)
        return copy


def run(func, args, kwargs, copy_back=True):
    """func(*args, **kwargs) without writes in what is recorded, but for copies into arguments at the end.

    With copy_back=False nothing is copied: (result, [(argument, its value)] of those that were written into).
    """
    mode = Functional()
    leaves = []
    tree_map(lambda x: leaves.append(x) if isinstance(x, _C.Tensor) else None, (args, kwargs))
    with mode:
        result = func(*args, **kwargs)
    result = tree_map(lambda x: mode.value(x) if isinstance(x, _C.Tensor) else x, result)
    written = [(x, mode.value(x)) for x in leaves if mode.value(x) is not x]
    if not copy_back:
        return result, written
    for x, value in written:
        x.copy_(value)
    return result


def recorded_by(active):
    """Lets `func.functionalize` keep writes out of graphs while `active()` holds."""
    RECORDERS.append(lambda: run if active() is not None else None)
