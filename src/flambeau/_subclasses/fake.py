"""FakeTensor itself: shape, dtype and device of a tensor without its values."""

from contextvars import ContextVar
from copy import deepcopy

from .. import _C
from .._symbolic.expressions import Call
from .._symbolic.numbers import SymFloat, SymNode
from .._tensor.overriding import disable_torch_dispatch
from ._devices import numbered

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


class UnsupportedOperatorException(RuntimeError):
    """Nothing says how the result of an operator looks."""


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
        made = _C.Tensor._make_wrapper_subclass(cls, meta.shape, strides=meta.stride(), dtype=meta.dtype,
                                                device=numbered(device), storage_offset=meta.storage_offset())
        made.meta, made.fake_mode = meta, mode
        return made

    def _again(self, meta):
        """Another such tensor, of this form."""
        return FakeTensor(meta, self.device, self.fake_mode)

    def _on(self, device):
        """Another such tensor, on a device."""
        return FakeTensor(self.meta, device, self.fake_mode)

    @property
    def fake_device(self):
        """The device that it says it is on."""
        return self.device

    def __repr__(self, *, tensor_contents=None):
        return f"FakeTensor(..., {_said(self)})"

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
        if type(value) is not type(self) or (value.dtype, value.device) != (self.dtype, self.device):
            raise RuntimeError(f"data: a fake tensor of {self.dtype} on {self.device} can become another such one, got "
                               f"a {type(value).__name__} of {value.dtype} on {value.device}")
        self._become(value.meta.detach())

    def _become(self, meta):
        """Another form and memory for this tensor."""
        if self.constant is not None:
            self.fake_mode._forget(self)
        self.meta = meta
        _C.set_like(self, FakeTensor(meta, self.device, self.fake_mode), 0)

    def set_(self, source=None, storage_offset=0, size=None, stride=None):
        """Makes this tensor a view of the memory of `source`, as Tensor.set_."""
        with disable_torch_dispatch():
            self._become(self.meta.detach().set_(getattr(source, "meta", source), storage_offset, size, stride))
        return self

    def resize_(self, *sizes, memory_format=None):
        """Gives this tensor another shape, as Tensor.resize_."""
        with disable_torch_dispatch():
            self._become(self.meta.detach().resize_(*sizes, memory_format=memory_format))
        return self

    def __copy__(self):
        return self._kept(self._again(self.meta))

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        with disable_torch_dispatch():
            made = memo[id(self)] = self._kept(self._again(self.meta.clone()))
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    def _kept(self, made):
        """What a copy has of this tensor apart from its form."""
        made.requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            made._is_param = True
        return made

    def __reduce_ex__(self, protocol):
        raise AttributeError(f"pickle: a fake tensor of shape {list(self.shape)} has no values to write; write the "
                             "tensor that it was made of")

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
        return [part.tolist() for part in self.unbind()] if self.dim() else self.item()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = next(a.fake_mode for a in leaves(args, kwargs or {}) if isinstance(a, FakeTensor))
        return mode.run(func, args, kwargs or {})


def _said(tensor):
    """Size, and what is not as usual, of a tensor without values."""
    size = ", ".join(map(repr, tensor.shape)) + ("," if tensor.dim() == 1 else "")
    said = [f"size=({size})"]
    if tensor.device.type != "cpu":
        said.insert(0, f"device='{tensor.device}'")
    if tensor.dtype is not _C.default_dtype():
        said.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        said.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        said.append("requires_grad=True")
    return ", ".join(said)


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
