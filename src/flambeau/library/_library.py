"""What users call to register operators, their implementations and their rules."""

import contextlib
import sys
from functools import partial
from warnings import warn

from .. import _C
from .._shown import shown
from ..amp.autocast_mode import _cast, _kind, autocast
from ._enumerations import Tag
from ._operator import OPERATORS, SLOTS, find, forget, once_defined
from ._operator import define as _define
from ._replacing import put_back, replace
from ._schema import infer_schema


class CustomOpDef:
    """A custom operator made from a function: call it, and register what belongs to it."""

    def __init__(self, operator, function):
        self._operator = operator
        self._init_fn = function
        self._qualname = operator.qualified
        self._namespace, self._name = operator.namespace, operator.name
        self._opoverload = operator.packet.default
        self.__name__ = operator.name
        self.__doc__ = function.__doc__

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._operator.op(*args, **kwargs)

    @property
    def qualified(self):
        """The name with its namespace."""
        return self._qualname

    def register_kernel(self, device_types, func=None, /):
        """Decorator: the implementation for tensors of these device types (a name, several, or None: all)."""
        return register_kernel(self, device_types, func)

    def register_fake(self, fn, /):
        """Decorator: the result's shape and dtype for meta tensors, without data."""
        return register_fake(self, fn)

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *grads) returns a gradient per argument; setup_context(ctx, inputs, output) prepares it."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func=None):
        """Decorator: func(info, in_dims, *args) -> (result, out_dims) runs a whole batch at once."""
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Decorator: fn(mode_or_class, func, types, args, kwargs) for a subclass or a mode."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autocast(self, device_type, cast_inputs, /):
        """Floating inputs are cast to that dtype where autocast is on."""
        return register_autocast(self, device_type, cast_inputs)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """Context: without the implementation for that device type, the function itself runs (enabled=False)."""
        kernels = self._operator.kernels
        kernel = kernels.get(device_type)
        if kernel is None:
            warn(f"set_kernel_enabled: {self._qualname} has no implementation for {shown(device_type)}, so nothing "
                 "changes", stacklevel=3)
        elif not enabled:
            kernels[device_type] = self._init_fn
        try:
            yield
        finally:
            if kernel is not None:
                kernels[device_type] = kernel


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Decorator: the function becomes the operator `name` ("namespace::name"), which everything above it sees as one.

    mutates_args names the arguments it writes into (an empty iterable: none). The schema comes from the annotations.

    >>> import flambeau
    >>> @flambeau.library.custom_op("example::squared", mutates_args=())
    ... def squared(x: flambeau.Tensor) -> flambeau.Tensor:
    ...     return flambeau.as_tensor(x.numpy() ** 2)
    >>> squared.register_autograd(lambda ctx, g: 2 * ctx.x * g,
    ...                           setup_context=lambda ctx, inputs, output: setattr(ctx, "x", inputs[0]))
    >>> x = flambeau.tensor(3., requires_grad=True)
    >>> squared(x).backward()
    >>> x.grad
    tensor(6.)
    """
    def register(function):
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        operator = _define(name, text, _tags(name, tags))
        operator.fresh = True
        for device in _devices(device_types):
            operator.kernels[device] = function
        return CustomOpDef(operator, function)

    return register if fn is None else register(fn)


def _devices(device_types):
    if device_types is None or device_types == "default":
        return (None,)
    return (device_types,) if isinstance(device_types, str) else tuple(device_types)


def define(qualname, schema, alias_analysis="", *, lib=None, tags=()):
    """Registers an operator by its schema alone; `impl` gives it implementations.

    `define(lib, schema)` is a decorator: the function is the operator's implementation on every device.

    >>> import flambeau
    >>> flambeau.library.define("example::twice", "(Tensor x) -> Tensor")
    >>> @flambeau.library.impl("example::twice", "cpu")
    ... def twice(x):
    ...     return x * 2
    >>> flambeau.ops.example.twice(flambeau.ones(1))
    tensor([2.])
    """
    if isinstance(qualname, Library):
        return impl(qualname, qualname.define(schema, alias_analysis, tags=tags), "CompositeImplicitAutograd")
    _owned(lib, qualname)
    operator = _defined_once(qualname, schema, _tags(qualname, tags))
    if lib is not None:
        lib._undo.append(partial(forget, operator))
    return None


def _defined_once(name, schema, tags):
    if not isinstance(name, str) or not isinstance(schema, str):
        raise ValueError(f"define: expected a name and a schema, got {shown(name)} and {shown(schema)}")
    if name in OPERATORS:
        raise RuntimeError(f"define: the operator {name} exists already, with the schema {OPERATORS[name].schema}")
    return _define(name, schema, tags)


def _tags(name, tags):
    """The tags as a list, each one a Tag."""
    found = [tags] if isinstance(tags, Tag) else list(tags or ())
    for tag in found:
        if not isinstance(tag, Tag):
            raise TypeError(f"{name}: tags are members of flambeau.Tag, got {shown(tag)}")
    return found


def _owned(lib, op):
    """`lib` is the Library that the operator belongs to."""
    if lib is None:
        return
    if not isinstance(lib, Library):
        raise TypeError(f"lib is a flambeau.library.Library, got {type(lib).__name__}")
    qualname = getattr(op, "qualified", op)
    if isinstance(qualname, str) and qualname.partition("::")[0] != lib.ns:
        raise ValueError(f"{qualname} does not belong to the library {shown(lib.ns)}; pass a Library of its own "
                         "namespace")


def _put(operator, key, function, allow_override=False):
    """The kernel for a dispatch key; a second one replaces the first."""
    slot = _slot(key)
    if slot in operator.kernels and not allow_override:
        warn(f"{operator.qualified}: the implementation for {key or 'any device'!r} is replaced; allow_override=True "
             "says that this is meant", stacklevel=3)
    operator.kernels[slot] = function


def _slot(key):
    if key not in SLOTS:
        raise RuntimeError(f"impl: dispatch key {shown(key)} is not available; there are those of devices (CPU, "
                           "CUDA …), each with Autograd or Autocast before it, Autograd, CompositeExplicitAutograd and "
                           "CompositeImplicitAutograd")
    return SLOTS[key]


def impl(qualname, types="default", func=None, *, lib=None):
    """Decorator: the implementation of an operator for device types (or PyTorch's dispatch keys).

    The operator may be defined later. `impl(lib, name, key)` is the form for an operator of a Library.
    """
    if isinstance(qualname, Library):
        return partial(_implemented, qualname, types, func or "")
    _owned(lib, qualname)

    def register(function):
        _check_function(qualname, function)
        keys = (types,) if isinstance(types, str) else tuple(types)
        once_defined(qualname, lambda operator: [_put(operator, key, function) for key in keys])
        return function

    return register if func is None else register(func)


def _implemented(lib, op_name, key, function):
    lib.impl(op_name, function, key)
    return function


def _check_function(name, function):
    if not callable(function):
        raise TypeError(f"impl: the implementation of {shown(name)} must be a function, got {shown(function)}")


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Decorator: the implementation for tensors of these device types (None: all)."""
    _owned(lib, op)

    def register(function):
        for device in _devices(device_types):
            find(op).kernels[device] = function
        return function

    return register if func is None else register(func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Decorator: the result's shape and dtype for meta tensors, without data. The operator may be defined later."""
    _owned(lib, op)

    def register(function):
        def put(operator):
            if operator.fake is not None and not allow_override:
                warn(f"{operator.qualified}: the fake implementation is replaced; allow_override=True says that this "
                     "is meant", stacklevel=_stacklevel + 3)
            operator.fake = function

        once_defined(op, put)
        return function

    return register if func is None else register(func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel + 1)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The derivative: backward(ctx, *grads), with what setup_context(ctx, inputs, output) kept in ctx."""
    _owned(lib, op)
    operator = find(op)
    if operator.schema.mutated:
        raise RuntimeError(f"register_autograd: {operator.qualified} writes into its arguments and can have no "
                           "derivative; wrap it in an operator that returns its result")
    operator.backward, operator.setup_context = backward, setup_context


def register_vmap(op, func=None, /, *, lib=None):
    """Decorator: func(info, in_dims, *args) -> (result, out_dims) runs a whole batch at once."""
    _owned(lib, op)

    def register(function):
        find(op).vmap = function
        return function

    return register if func is None else register(func)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Decorator: what a mode or subclass does with this operator, instead of its __torch_dispatch__."""
    _owned(lib, op)

    def register(function):
        find(op).dispatch_rules[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Where autocast is on for the device type, its floating-point tensors are converted to that dtype first.

    float64 stays; inside, autocast is off. A second call replaces the first.

    >>> import flambeau
    >>> flambeau.library.define("example::product", "(Tensor x, Tensor y) -> Tensor")
    >>> flambeau.library.impl("example::product", "cpu", lambda x, y: x @ y)
    <function <lambda> at ...>
    >>> flambeau.library.register_autocast("example::product", "cpu", flambeau.bfloat16)
    >>> with flambeau.autocast("cpu"):
    ...     flambeau.ops.example.product(flambeau.ones(2, 2), flambeau.ones(2, 2)).dtype
    torch.bfloat16
    """
    if _kind(device_type) == "meta":
        raise ValueError("register_autocast: tensors on 'meta' have no values to convert; name the device type whose "
                         "autocast is meant")
    if not isinstance(cast_inputs, _C.dtype):
        raise TypeError(f"register_autocast: cast_inputs is the dtype to convert to, got {shown(cast_inputs)}")
    _owned(lib, op)
    operator = find(op)

    def converted(*args, **kwargs):
        with autocast(device_type, enabled=False):
            return operator.op(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    operator.kernels[f"autocast {device_type}"] = converted


def fallthrough_kernel():
    """Stands for "as if nothing were registered"; it is never called."""
    raise NotImplementedError("fallthrough_kernel is a mark for Library.impl and must not be called")


_RESERVED = {"prim"}
_DEFINED = set()  #: namespaces that a Library of kind "DEF" defines


class Library:
    """A namespace to define operators in: Library("mylib", "DEF"), or to add to ("FRAGMENT", "IMPL").

    What is registered through it lasts as long as the object: keep it.

    >>> import flambeau
    >>> lib = flambeau.library.Library("example2", "DEF")
    >>> lib.define("plus(Tensor x, int k=1) -> Tensor")
    'plus'
    >>> lib.impl("plus", lambda x, k=1: x + k, "CompositeExplicitAutograd")
    >>> flambeau.ops.example2.plus(flambeau.zeros(1))
    tensor([1.])
    """

    _undo, kind = (), ""  # of one that could not be made

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {shown(kind)}; use 'DEF', 'IMPL' or 'FRAGMENT'")
        if ns in _RESERVED and kind != "IMPL":
            raise ValueError(f"Library: the namespace {shown(ns)} belongs to scripts; choose "
                             "another name")
        if kind == "DEF" and (ns == "aten" or ns in _DEFINED):
            raise RuntimeError(f"Library: there is one library that defines the namespace {shown(ns)} already; use "
                               "'FRAGMENT' to add operators to it")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo = []  # what takes its registrations back
        if kind == "DEF":
            _DEFINED.add(ns)

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def __del__(self):
        if not sys.is_finalizing():
            self._destroy()

    def _destroy(self):
        """Takes back what was registered through it: operators, and implementations of others. So does its end."""
        while self._undo:
            self._undo.pop()()
        if self.kind == "DEF":
            _DEFINED.discard(self.ns)

    def define(self, schema, alias_analysis="", *, tags=()):
        """Registers "name(Tensor x) -> Tensor" in this namespace; returns the name.

        A name may end in that of an overload ("name.int"). `tags` are the operator's `tags`. alias_analysis is for
        compilers and is kept: calls follow the schema."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Library.define: alias_analysis is 'FROM_SCHEMA', 'CONSERVATIVE' or '', "
                               f"got {shown(alias_analysis)}")
        name, opened, _ = schema.partition("(")
        name = name.strip()
        if not opened or not name.replace(".", "_").isidentifier():
            raise RuntimeError("Library.define: expected a schema like \"name(Tensor x) -> Tensor\", got "
                               f"{shown(schema)}")
        operator = _defined_once(f"{self.ns}::{name}", schema[schema.index("("):], _tags(name, tags))
        operator.alias_analysis = alias_analysis
        self._undo.append(partial(forget, operator))
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """An implementation for a dispatch key (or device type).

        In the namespace "aten" it takes the place of the library's own: for a device below autograd, for Autograd
        above it, in the thread that registers it and until the library is destroyed.
        """
        if with_keyset:
            raise NotImplementedError("Library.impl: with_keyset=True is not available: there are no dispatch keys")
        if fn is fallthrough_kernel:
            return
        _check_function(op_name, fn)
        key, name = dispatch_key or self.dispatch_key, self._qualified(op_name)
        if self.ns == "aten" and name.removesuffix(".default") not in OPERATORS:
            self._undo.append(replace(name, _slot(key or "CompositeImplicitAutograd"), fn))
            return
        operator = find(name)
        before = operator.kernels.get(_slot(key))
        _put(operator, key, fn, allow_override)
        self._undo.append(partial(put_back, operator.kernels, _slot(key), before))

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        """The result's shape and dtype without data, of an operator of this namespace."""
        register_fake(self._qualified(op_name), fn, _stacklevel=_stacklevel + 1, allow_override=allow_override)

    def _qualified(self, op_name):
        name = f"{self.ns}::{op_name.name}" if isinstance(op_name, _C.Op) else getattr(op_name, "qualified", op_name)
        return name if "::" in name else f"{self.ns}::{name}"


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """A Library, whose registrations end with the context."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def get_kernel(op, dispatch_key):
    """The implementation registered for a dispatch key or device type."""
    kernels = find(op).kernels
    slot = _slot(dispatch_key if isinstance(dispatch_key, str) else str(dispatch_key))
    if slot not in kernels:
        raise RuntimeError(f"{find(op).qualified} has no implementation for {shown(dispatch_key)}")
    return kernels[slot]


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """As custom_op, for functions that launch Triton kernels."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel, /):
    """The kernel itself: a call runs it."""
    return triton_kernel
