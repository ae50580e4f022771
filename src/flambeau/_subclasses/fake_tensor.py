"""FakeTensor: shape, dtype and device of a tensor without its values; operators run on the `meta` device."""

from .. import _C
from .._tensor.overriding import TorchDispatchMode, disable_torch_dispatch
from ..utils._pytree import tree_map


class DataDependentOutputException(RuntimeError):
    """A program asks a fake tensor for a value."""

    def __init__(self, func):
        super().__init__(f"{getattr(func, 'name', func)}: a fake tensor has no values to answer this with")
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on values."""

    def __init__(self, func):
        super().__init__(f"{getattr(func, 'name', func)}: the shape of its result depends on values, which fake "
                         "tensors do not have")
        self.func = func


class UnsupportedFakeTensorException(RuntimeError):
    """Of a tensor that has no fake form."""


class FakeTensor(_C.Tensor):
    """A tensor without values, of the device that it says; made by FakeTensorMode.from_tensor.

    >>> import flambeau
    >>> from flambeau._subclasses import FakeTensorMode
    >>> fake = FakeTensorMode().from_tensor(flambeau.ones(2, 3))
    >>> (fake @ fake.T).shape, fake.device
    (torch.Size([2, 2]), device(type='cpu'))
    """

    __torch_function__ = _C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, meta, device, mode):
        made = _C.Tensor._make_wrapper_subclass(cls, meta.shape, strides=meta.stride(), dtype=meta.dtype, device=device,
                                                storage_offset=meta.storage_offset())
        made.meta, made.fake_mode = meta, mode
        return made

    @property
    def fake_device(self):
        """The device that it says it is on."""
        return self.device

    def __repr__(self, *, tensor_contents=None):
        return f"FakeTensor(..., size={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = next(a.fake_mode for a in _flat(args, kwargs or {}) if isinstance(a, FakeTensor))
        return mode.run(func, args, kwargs or {})


def _flat(*values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(*value)
        elif isinstance(value, dict):
            yield from _flat(*value.values())
        else:
            yield value


class FakeTensorMode(TorchDispatchMode):
    """Inside, operators give fake tensors, and nothing is computed.

    allow_non_fake_inputs  real tensors may meet fake ones; allowed in any case, since their values are not read
    """

    def __init__(self, *, allow_non_fake_inputs=True):
        super().__init__()
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self._known = {}

    def from_tensor(self, tensor):
        """The fake form of a tensor: the same each time for the same tensor."""
        if isinstance(tensor, FakeTensor):
            return tensor
        found = self._known.get(id(tensor))
        if found is not None and found[0] is tensor:
            return found[1]
        if tensor.layout is not _C.strided:
            raise UnsupportedFakeTensorException(f"from_tensor: a {tensor.layout} tensor has no fake form")
        meta = _C.Tensor.detach(tensor)
        fake = FakeTensor(meta.to("meta") if meta.device.type != "meta" else meta, tensor.device, self)
        if tensor.requires_grad:
            fake.requires_grad_()
        self._known[id(tensor)] = (tensor, fake)
        return fake

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """The fake result of an operator."""
        if getattr(func, "name", "") == "_local_scalar_dense":
            raise DataDependentOutputException(func)
        device = self._device(args, kwargs)
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "meta"}
        elif not any(isinstance(a, _C.Tensor) for a in _flat(args)):
            kwargs = {**kwargs, "device": "meta"} if "device" in func.schema else kwargs
        inner_args, inner_kwargs = tree_map(self._inner, (args, kwargs))
        with disable_torch_dispatch():  # this mode may have been entered more than once
            result = func(*inner_args, **inner_kwargs)
        return self._outer(result, device, args, kwargs)

    def _inner(self, value):
        if isinstance(value, FakeTensor):
            return value.meta
        if isinstance(value, _C.Tensor) and value.device.type != "meta":
            return value.to("meta")
        if isinstance(value, _C.device):
            return _C.device("meta")
        return value

    def _device(self, args, kwargs):
        asked = kwargs.get("device")
        if asked is not None:
            return _C.device(asked)
        tensors = [a for a in _flat(args, kwargs) if isinstance(a, _C.Tensor)]
        dimensioned = [t for t in tensors if t.dim()] or tensors
        return dimensioned[0].device if dimensioned else _C.device("cpu")

    def _outer(self, result, device, args, kwargs):
        written = {id(a.meta): a for a in _flat(args, kwargs) if isinstance(a, FakeTensor)}

        def wrap(value):
            if not isinstance(value, _C.Tensor) or isinstance(value, FakeTensor):
                return value
            return written[id(value)] if id(value) in written else FakeTensor(value, device, self)

        return tree_map(wrap, result)
