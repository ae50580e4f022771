"""FakeTensor itself: shape, dtype and device of a tensor without its values."""

from contextvars import ContextVar

from .. import _C
from .._symbolic.expressions import Call
from .._symbolic.numbers import SymFloat, SymNode
from .._tensor.overriding import disable_torch_dispatch

#: where a program keeps detach() as a step, what gives its result for a tensor; None elsewhere: the tensor's own memory
detaching = ContextVar("detaching", default=None)
#: where a program is run for the shapes of its results alone: an iterator of truths that tensors of one bool have then
assumed = ContextVar("assumed", default=None)


class DataDependentOutputException(RuntimeError):
    """A program asks a fake tensor for a value."""

    def __init__(self, func):
        super().__init__(f"{getattr(func, 'name', func)}: a fake tensor has no values to answer this with")
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on values."""

    def __init__(self, func):
        name = getattr(func, "qualified", getattr(func, "name", func))
        super().__init__(f"{name}: the shape of its result depends on values, which fake tensors do not have")
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
    #: the values, where they are known: of a tensor made of Python's numbers, and of numbers computed from such
    constant = None

    @staticmethod
    def __new__(cls, meta, device, mode):
        made = _C.Tensor._make_wrapper_subclass(cls, meta.shape, strides=meta.stride(), dtype=meta.dtype, device=device,
                                                storage_offset=meta.storage_offset())
        made.meta, made.fake_mode = meta, mode
        return made

    def _again(self, meta):
        """Another such tensor, of this form."""
        return FakeTensor(meta, self.device, self.fake_mode)

    @property
    def fake_device(self):
        """The device that it says it is on."""
        return self.device

    def __repr__(self, *, tensor_contents=None):
        return f"FakeTensor(..., size={tuple(self.shape)}, dtype={self.dtype})"

    def detach(self):
        """The same without history."""
        result = detaching.get()
        return _C.Tensor.detach(self) if result is None else result(self)

    @property
    def data(self):
        """As detach()."""
        return _C.Tensor.data.__get__(self) if detaching.get() is None else self.detach()

    @data.setter
    def data(self, value):
        _C.Tensor.data.__set__(self, value)

    def untyped_storage(self):
        """The memory that it would have, without values: so large, and the same for its views."""
        return self.meta.untyped_storage()

    def item(self):
        """The number in it: where sizes may be open, an open one."""
        if self.constant is not None:
            return value_of(self)
        env = self.fake_mode.shape_env
        return _C.Tensor.item(self) if env is None else opened(self, env)

    def tolist(self):
        """The numbers in it, as nested lists: open ones where sizes may be open."""
        if self.fake_mode.shape_env is None:
            return _C.Tensor.tolist(self)
        return [part.tolist() for part in self.unbind()] if self.dim() else self.item()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = next(a.fake_mode for a in leaves(args, kwargs or {}) if isinstance(a, FakeTensor))
        return mode.run(func, args, kwargs or {})


def value_of(tensor):
    """The number in a tensor whose values are known."""
    with disable_torch_dispatch():
        return tensor.constant.item()


def is_fake(x):
    """Whether an object is a tensor without values, or is made of such: a class that `__tensor_flatten__` takes apart.

    >>> import flambeau
    >>> from flambeau._subclasses.fake_tensor import FakeTensorMode, is_fake
    >>> is_fake(FakeTensorMode().from_tensor(flambeau.ones(2))), is_fake(flambeau.ones(2))
    (True, False)
    """
    if isinstance(x, FakeTensor):
        return True
    if not isinstance(x, _C.Tensor) or not hasattr(x, "__tensor_flatten__"):
        return False
    parts = [is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0]]
    if any(parts) and not all(parts):
        raise AssertionError(f"is_fake: some tensors inside of the {type(x).__name__} have values and others have none")
    return any(parts)


def opened(tensor, env):
    """A SymInt, SymFloat or SymBool for the number in a tensor without values."""
    truths = assumed.get()
    truth = next(truths, None) if truths is not None and tensor.dtype is _C.bool else None
    if truth is not None:
        return truth
    if _C.Tensor.numel(tensor) != 1 or tensor.dtype.is_complex or not env.allow_scalar_outputs:
        raise DataDependentOutputException("item")
    number = env.create_unbacked_symint("item()")
    if tensor.dtype.is_floating_point:
        number = SymFloat(SymNode(Call("ToFloat", number.node.expr), env, float))
    number.node.made = "item", (tensor, None)
    return number == 1 if tensor.dtype is _C.bool else number


def leaves(*values):
    """The items of nested tuples, lists and dicts."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from leaves(*value)
        elif isinstance(value, dict):
            yield from leaves(*value.values())
        else:
            yield value
