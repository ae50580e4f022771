"""Operators that move or copy elements: they do the same to values and mask."""

from ... import _C
from ..._C import Tensor
from ...ops.kinds import OPS
from .core import data_of, is_masked_tensor, is_sparse, make, wrap
from .rules import refuse, rule, write

#: what moves single elements, or repeats or selects them
_MOVING = """view reshape flatten unflatten expand expand_as repeat tile flip fliplr flipud roll rot90 unfold diagonal
diag take take_along_dim gather masked_select view_as reshape_as ravel swapaxes swapdims movedim moveaxis hsplit vsplit
 dsplit tensor_split numpy_T mT squeeze index_select select narrow narrow_copy slice t transpose permute unsqueeze split
 split_with_sizes chunk unbind broadcast_to unsafe_split unsafe_chunk repeat_interleave tril triu as_strided
 __getitem__""".split()


def _plain(x, which):
    if is_masked_tensor(x):
        return which(x)
    return tuple(_plain(part, which) for part in x) if isinstance(x, tuple) else x


def _both(data, mask):
    if isinstance(data, (tuple, list)):
        return type(data)(_both(d, m) for d, m in zip(data, mask, strict=True))
    return make(data, mask)


def _moving(name):
    op = OPS[name] if name in OPS else getattr(Tensor, name)

    def move(self, *args, **kwargs):
        if not is_masked_tensor(self):
            return refuse(name, " in the place of indices")
        if is_sparse(self._masked_data):
            return refuse(name, f" of layout {self.layout} (to_dense() has rules)")
        args = [_plain(x, lambda x: x._masked_data) for x in args]
        return _both(op(data_of(self), *args, **kwargs), op(self._masked_mask, *args, **kwargs))
    move.__doc__ = f"{name} of values and mask."
    return move


for _name in _MOVING:
    if _name in OPS or _name == "__getitem__":
        rule(_name)(_moving(_name))


def _full_mask(x):
    return x._masked_mask if is_masked_tensor(x) else OPS["ones_like"](x, dtype=_C.bool)


def _joined(name):
    def join(tensors, dim=0):
        if any(is_sparse(x._masked_data) for x in tensors if is_masked_tensor(x)):
            return refuse(name, " of a sparse layout (to_dense() has rules)")
        data = OPS[name]([data_of(x) if is_masked_tensor(x) else x for x in tensors], dim)
        return make(data, OPS[name]([_full_mask(x) for x in tensors], dim))
    join.__doc__ = f"{name} of values and masks; plain tensors count everywhere."
    return join


for _name in ("cat", "stack"):
    rule(_name)(_joined(_name))


# --- copies -----------------------------------------------------------------------------------------------------------

@rule("clone")
def _clone(self, *, memory_format=_C.preserve_format):
    data = data_of(self)
    found = OPS["clone"](data) if is_sparse(data) else OPS["clone"](data, memory_format=memory_format)
    return make(found, self._masked_mask.clone())


@rule("contiguous")
def _contiguous(self, memory_format=_C.contiguous_format):
    if is_sparse(self._masked_data):
        raise ValueError(f"contiguous: a masked tensor of layout {self.layout} has no order in memory")
    return make(OPS["contiguous"](data_of(self), memory_format=memory_format), self._masked_mask.contiguous())


@rule("alias", "detach")
def detached(self, *_):
    """The same tensor without history."""
    return wrap(self._masked_data, self._masked_mask)


@rule("_to_copy")
def _to_copy(self, *, dtype=None, device=None):
    data, mask = data_of(self), self._masked_mask
    return make(OPS["_to_copy"](data, dtype=dtype, device=device), mask if device is None else mask.to(device))


@rule("real", "conj")
def _itself(self):
    return self


def _like(name):
    def like(self, *args, **kwargs):
        needs_grad = kwargs.pop("requires_grad", False)
        if is_sparse(self._masked_data):
            return refuse(name, f" of layout {self.layout} (to_dense() has rules)")
        found = wrap(OPS[name](self._masked_data, *args, **kwargs), self._masked_mask)
        return found.requires_grad_() if needs_grad else found
    like.__doc__ = f"{name}, with the same mask."
    return like


for _name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"):
    rule(_name)(_like(_name))


def _filled(name):
    def fill(self, *value):
        return write(self, wrap(OPS["full_like"](self._masked_data, *(value or (0,))), self._masked_mask), name)
    fill.__doc__ = f"{name} of the values."
    return fill


for _name in ("zero_", "fill_"):
    rule(_name)(_filled(_name))
