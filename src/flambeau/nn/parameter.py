"""Parameter and Buffer: the tensors that a Module registers when they are assigned to it."""

from collections import OrderedDict

import flambeau

from .. import _C, Tensor
from .._tensor.overriding import disable_torch_function


class _ParameterMeta(type(Tensor)):
    # a tensor subclass wrapped as a parameter keeps its own type and only carries the mark
    def __instancecheck__(self, instance):
        if type.__instancecheck__(self, instance):
            return True
        return self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is a parameter: assigned to a Module it appears in `parameters()`.

    Shares memory with `data`. It wants a gradient unless `requires_grad=False`, also inside `no_grad()`.

    >>> import flambeau
    >>> flambeau.nn.Parameter(flambeau.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    # what is computed from parameters is a plain Tensor
    __torch_function__ = _C._disabled_torch_function_impl
    #: the mark: of every parameter, also one of another type
    _is_param = True

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = flambeau.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            param = Tensor._make_subclass(cls, data, requires_grad)
            _C.follow_writes(param)
            return param
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: expected a Tensor, got {type(data).__name__}")
        param = data.detach().requires_grad_(requires_grad)
        if type(param) is not type(data):
            raise RuntimeError(
                f"Parameter: {type(data).__name__}.detach() gave a {type(param).__name__}; "
                "a tensor subclass must keep its type to become a parameter"
            )
        param._is_param = True
        return param

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=flambeau.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        return _rebuild_parameter, (self.data, self.requires_grad, OrderedDict(), dict(self.__dict__))


def _rebuild_parameter(data, requires_grad, hooks, state=None):
    param = Parameter(data, requires_grad)
    if state:
        param.__dict__.update(state)
    return param


class _BufferMeta(type(Tensor)):
    def __instancecheck__(self, instance):
        if self is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return type.__instancecheck__(self, instance)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a Module registers as a buffer when it is assigned; `persistent=False` keeps it out of state_dict.

    >>> import flambeau
    >>> m = flambeau.nn.Module()
    >>> m.mean = flambeau.nn.Buffer(flambeau.zeros(2))
    >>> [name for name, _ in m.named_buffers()]
    ['mean']
    """

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            data = flambeau.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


#: what can be asked of a tensor before it has a shape
_KNOWN_EARLY = {
    "__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char", "short", "int",
    "long", "bfloat16", "cuda", "cpu", "to", "get_device", "requires_grad_", "type", "_to_copy",
    "detach", "share_memory_",
}


class UninitializedTensorMixin:
    """A tensor of a lazy module whose shape is known only at the first call; `materialize` gives it memory."""

    _is_lazy = True
    _becomes = Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _KNOWN_EARLY or name.startswith(("__get__", "__set__")):
            with disable_torch_function():
                return func(*args, **(kwargs or {}))
        raise ValueError(
            f"{name}: this parameter has no shape yet, because its lazy module has seen no input; call the module on "
            "an input first"
        )

    def materialize(self, shape, device=None, dtype=None):
        """Become an ordinary tensor of that shape, with values as they happen to be in memory."""
        self.data = flambeau.empty(
            shape, device=self.data.device if device is None else device, dtype=dtype or self.data.dtype
        )
        self.__class__ = self._becomes

    @property
    def shape(self):
        raise RuntimeError(
            "this parameter or buffer has no shape yet, because its lazy module has seen no input; call the module on "
            "an input first (load_state_dict can fill only an initialized module from this state)"
        )

    def share_memory_(self):
        raise RuntimeError("share_memory_: this parameter or buffer has no memory to share yet, because its lazy "
                           "module has seen no input; call the module on an input first")

    def detach(self):
        return self

    def __repr__(self):
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """The parameter of a lazy module before its first call.

    >>> import flambeau
    >>> flambeau.nn.LazyLinear(2).weight
    <UninitializedParameter>
    """

    _becomes = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor._make_subclass(cls, flambeau.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad, self.device, self.dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """The buffer of a lazy module before its first call."""

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        buffer = Tensor._make_subclass(cls, flambeau.empty(0, device=device, dtype=dtype), requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(False, self.device, self.dtype, self.persistent)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return type(self), (False, self.device, self.dtype, self.persistent)


def is_lazy(tensor):
    """Whether the tensor still waits for its shape."""
    return getattr(tensor, "_is_lazy", False)
