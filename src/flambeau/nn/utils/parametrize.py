"""Parametrizations: a module's tensor becomes a function of others, computed anew whenever it is read.

The module gets a class of its own, on which the tensor's name is a property; what it is computed from stands in
`module.parametrizations.<name>` (original, or original0, original1, …) and so in the state dict.
"""

import contextlib
from collections.abc import Sequence
from copy import deepcopy

from ... import Tensor, empty, no_grad
from ..._shown import shown
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

#: values computed inside `cached()`, by (id of the module, name); None outside
_cache = None


@contextlib.contextmanager
def cached():
    """Inside, every parametrized tensor is computed once, at its first use.

    >>> from flambeau import nn
    >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> with nn.utils.parametrize.cached():
    ...     print(m.weight is m.weight)
    True
    """
    global _cache
    outer = _cache
    _cache = {} if outer is None else outer
    try:
        yield
    finally:
        _cache = outer


def _register(module, name, tensor):
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _put(target, value):
    """`target` (the object an optimizer holds) takes the memory and shape of `value`."""
    if target is not value:
        target.data = value.data


def _same(what, before, after):
    """A parametrization keeps dtype and shape."""
    if not isinstance(after, Tensor):
        raise ValueError(f"{what} returned a {type(after).__name__} in the place of a tensor")
    for kind in ("dtype", "shape"):
        a, b = getattr(before, kind), getattr(after, kind)
        if a != b:
            raise ValueError(
                f"{what} changes the {kind} from {a} to {b}; pass unsafe=True if that is intended"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to its original (or originals).

    >>> from flambeau import nn
    >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> m.parametrizations.weight.ntensors
    2
    """

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList: at least one parametrization is needed, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new = original
        with no_grad():
            for module in reversed(self):
                with contextlib.suppress(NotImplementedError):  # one that cannot say: the value stays
                    new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(
                f"right_inverse: its result must be one Tensor or several in a sequence, got {type(new).__name__}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != original.dtype or new.device != original.device:
                raise ValueError(
                    f"right_inverse changes the tensor from {original.dtype} on {original.device} to {new.dtype} on "
                    f"{new.device}; it must keep both"
                )
            _put(original, new)
            _register(self, "original", original)
        else:
            self._register_parts(original, new)
        if not unsafe:
            with no_grad():
                found = self()
            expected = empty(shape, dtype=dtype, device="meta")
            _same("Registering a parametrization", expected, found)

    def _register_parts(self, original, parts):
        for k, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(
                    f"right_inverse must return Tensors; entry {k} is {type(part).__name__}"
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            _register(self, f"original{k}", part.requires_grad_(original.requires_grad))

    def _originals(self):
        names = ["original"] if self.is_tensor else [f"original{k}" for k in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value):
        """Make `value` what the parametrized tensor is: through every right_inverse, last one first."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"{type(module).__name__} has no right_inverse, so the tensor cannot be "
                                       "set; give the parametrization one")
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else value
            if not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ValueError(f"right_inverse must return a sequence of {self.ntensors} Tensors, got {shown(value)}")
            for target, part in zip(self._originals(), parts, strict=True):
                if not isinstance(part, Tensor):
                    raise ValueError(f"right_inverse must return a Tensor, got {type(part).__name__}")
                if part.dtype != target.dtype:
                    raise ValueError(
                        f"right_inverse returns {part.dtype} where the parameter holds {target.dtype}"
                    )
                _put(target, part)

    def forward(self):
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _copy(self, memo):
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__.update(deepcopy(self.__dict__, memo))
    return replica


def _refuse_pickle(self):
    raise RuntimeError(
        "a parametrized module cannot be pickled; save its state_dict(), and load that into a module parametrized in "
        "the same way"
    )


def _give_own_class(module):
    cls = type(module)
    members = {"__getstate__": _refuse_pickle}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _copy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _give_property(module, name):
    def read(self):
        if _cache is None:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Let `module.<tensor_name>` be `parametrization(original)`; returns the module.

    On a tensor that is parametrized already it is applied after the others. `right_inverse`, where the parametrization
    has it, says what to store for a given value: it runs now, and when the tensor is assigned. `unsafe=True` allows it
    to change shape and dtype.

    >>> import flambeau
    >>> class Positive(flambeau.nn.Module):
    ...     def forward(self, original):
    ...         return original.exp()
    >>> m = flambeau.nn.Linear(3, 3)
    >>> _ = flambeau.nn.utils.parametrize.register_parametrization(m, "weight", Positive())
    >>> bool((m.weight > 0).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        entry = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        entry.append(parametrization)
        entry.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        entry = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _give_property(module, tensor_name)
        module.parametrizations[tensor_name] = entry
    else:
        raise ValueError(
            f"{type(module).__name__} has no parameter, buffer or parametrized tensor named '{tensor_name}'"
        )
    return module


def _check_further(module, name, parametrization):
    before = getattr(module, name)
    after = parametrization(before)
    _same("Registering a parametrization", before, after)
    if hasattr(parametrization, "right_inverse"):
        with contextlib.suppress(NotImplementedError):
            _same("parametrization.right_inverse", before, parametrization.right_inverse(after))


def is_parametrized(module, tensor_name=None):
    """Whether the module has a parametrized tensor (of that name)."""
    entries = getattr(module, "parametrizations", None)
    if not isinstance(entries, ModuleDict):
        return False
    return len(entries) > 0 if tensor_name is None else tensor_name in entries


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make the tensor an ordinary one again, with its present value, or (False) with the original; returns the module.

    >>> from flambeau import nn
    >>> m = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> nn.utils.parametrize.remove_parametrizations(m, "weight")
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"{type(module).__name__} has no parametrization of '{tensor_name}'")
    entry = module.parametrizations[tensor_name]
    if entry.is_tensor:
        tensor = entry.original
        if leave_parametrized:
            with no_grad():
                _put(tensor, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            f"remove_parametrizations: '{tensor_name}' is computed from several tensors, none of which can take its "
            "place; pass leave_parametrized=True"
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module):
    """The module's type, without the class that parametrizations gave it."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Give `to_module` the parametrizations (of one tensor, or of all) of `from_module`, and their originals."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=source.unsafe)
        target = to_module.parametrizations[name]
        for key in ["original"] if source.is_tensor else [f"original{k}" for k in range(source.ntensors)]:
            setattr(target, key, getattr(source, key))
    return to_module
