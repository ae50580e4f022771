"""Methods of masked tensors that are no operators: printing, copying, pickling, single numbers, what is in memory."""

from ... import _C
from ..._tensor.wrapped import own
from .core import MaskedTensor, is_masked_tensor, wrap
from .layouts import method
from .moving import detached
from .printing import masked_repr


def _set_data(self, value):
    if not is_masked_tensor(value):
        raise TypeError(f"data: a masked tensor takes a masked tensor, got {type(value).__name__}")
    _C.set_like(self, value.detach(), 0)
    self._masked_data, self._masked_mask = value._masked_data, value._masked_mask


MaskedTensor.data = property(lambda self: detached(self), _set_data, doc="The same tensor without history.")


@method
def is_contiguous(self, memory_format=_C.contiguous_format):
    """Whether the values lie in order in memory."""
    if self.is_sparse:
        raise ValueError(f"is_contiguous: a masked tensor of layout {self.layout} has no order in memory")
    return self._masked_data.is_contiguous(memory_format=memory_format)


def _forwarded(name):
    def forward(self, *args, **kwargs):
        return getattr(self._masked_data, name)(*args, **kwargs)

    forward.__name__ = forward.__qualname__ = name
    forward.__doc__ = f"{name} of the values."
    method(forward)


for _name in ("stride", "storage_offset", "data_ptr", "element_size", "untyped_storage"):
    _forwarded(_name)


# --- single numbers, NumPy --------------------------------------------------------------------------------------------

@method
def item(self):
    """The number of a tensor that has one element; ValueError where it does not count."""
    dense = self.to_dense()
    value = dense._masked_data.item()
    if not dense._masked_mask.item():
        raise ValueError("item: the one element is masked, so it has no value; to_tensor(value) puts one in its place")
    return value


@method
def __float__(self):
    return float(self.item())


@method
def __int__(self):
    return int(self.item())


@method
def __bool__(self):
    return bool(self.item())


@method
def __index__(self):
    return self.item().__index__()


def _refused(name):
    def refuse(self, *args, **kwargs):
        raise RuntimeError(f"{name}: a masked tensor has values that do not count; use x.to_tensor(value).{name}(…), "
                           "or x.get_data() and x.get_mask()")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: which number stands for a value that does not count?"
    method(refuse)


for _name in ("numpy", "__array__", "tolist", "__dlpack__"):
    _refused(_name)


# --- printing, copying ------------------------------------------------------------------------------------------------

@method
def __repr__(self, *, tensor_contents=None):
    return masked_repr(self)


@method
def __format__(self, spec):
    return format(self.item(), spec) if spec and not self.dim() else object.__format__(self, spec)


@method
def __reduce_ex__(self, protocol):
    return _rebuild, (self._masked_data, self._masked_mask, self.requires_grad), own(self)


def _rebuild(data, mask, requires_grad):
    x = wrap(data, mask)
    return x.requires_grad_() if requires_grad else x
