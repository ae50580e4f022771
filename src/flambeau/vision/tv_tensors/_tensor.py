"""A tensor that says what its numbers mean; results of operations are plain tensors unless that is asked for."""

from copy import deepcopy

from ... import Tensor, as_tensor
from ..._shown import shown
from ..._tensor.overriding import DisableTorchFunctionSubclass

#: what stays of its kind by itself: copies of the same thing
_KEPT = {Tensor.clone, Tensor.detach, Tensor.requires_grad_}


class _Setting:
    """What `set_return_type` has set; it also ends a `with` block."""

    keeps_kind = False

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *error):
        _Setting.keeps_kind = self._before


def set_return_type(return_type):
    """Whether operations on these tensors give "Tensor" (as at the start) or "TVTensor", from now on or in a `with`.

    >>> import flambeau
    >>> from flambeau.vision import tv_tensors
    >>> image = tv_tensors.Image(flambeau.zeros(3, 2, 2))
    >>> with tv_tensors.set_return_type("TVTensor"):
    ...     type(image + 1).__name__
    'Image'
    >>> type(image + 1).__name__
    'Tensor'
    """
    if not isinstance(return_type, str) or return_type.lower() not in ("tensor", "tvtensor"):
        raise ValueError(f"set_return_type: 'Tensor' or 'TVTensor' is meant, got {shown(return_type)}")
    before = _Setting.keeps_kind
    _Setting.keeps_kind = return_type.lower() == "tvtensor"
    return _Setting(before)


class TVTensor(Tensor):
    """What Image, Video, Mask, BoundingBoxes and KeyPoints have in common."""

    #: the names of what is said about the numbers beside them
    _said = ()

    @staticmethod
    def _to_tensor(data, dtype=None, device=None, requires_grad=None):
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Tensor) else False
        with DisableTorchFunctionSubclass():
            return as_tensor(data, dtype=dtype, device=device).as_subclass(Tensor).requires_grad_(requires_grad)

    @classmethod
    def _of(cls, tensor, **said):
        """The same memory under this class."""
        kind = tensor.as_subclass(cls)
        for name, value in said.items():
            setattr(kind, name, value)
        return kind

    def _says(self):
        return {name: getattr(self, name) for name in self._said}

    @classmethod
    def _checked(cls, said):
        return said

    def to(self, *args, **kwargs):
        """Another dtype or device; what it means stays."""
        with DisableTorchFunctionSubclass():
            moved = self.as_subclass(Tensor).to(*args, **kwargs)
        return type(self)._of(moved, **self._says())

    def detach(self):
        """The same without history; what it means stays."""
        with DisableTorchFunctionSubclass():
            plain = self.as_subclass(Tensor).detach()
        return type(self)._of(plain, **self._says())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with DisableTorchFunctionSubclass():
            output = func(*args, **kwargs or {})
        # a copy is what the thing was that it was made of; `image.to(boxes)` is no box
        if isinstance(args[0], cls) if func in _KEPT else _Setting.keeps_kind:
            return cls._wrapped(output, args, kwargs or {})
        return output.as_subclass(Tensor) if isinstance(output, cls) else output

    @classmethod
    def _wrapped(cls, output, args, kwargs):
        if isinstance(output, Tensor):
            like = _first(cls, [*args, *kwargs.values()])
            return output if isinstance(output, cls) and output is like else cls._of(
                output.as_subclass(Tensor), **({} if like is None else like._says()))
        if isinstance(output, (tuple, list)):
            parts = [cls._wrapped(part, args, kwargs) for part in output]
            return output if not any(isinstance(part, Tensor) for part in parts) else type(output)(parts)
        return output

    def __deepcopy__(self, memo):
        with DisableTorchFunctionSubclass():
            copied = self.detach().clone().as_subclass(Tensor).requires_grad_(self.requires_grad)
        return type(self)._of(copied, **deepcopy(self._says(), memo))

    def __reduce_ex__(self, protocol):
        return _restored, (type(self), self.as_subclass(Tensor), self._says())

    def __repr__(self, *, tensor_contents=None):
        with DisableTorchFunctionSubclass():
            body = repr(self.as_subclass(Tensor))[len("tensor("):-1]
        said = ", ".join(f"{name}={value}" for name, value in self._says().items())
        return f"{type(self).__name__}({body}, {said})"


def _first(cls, values):
    """The first value of the class, also within sequences."""
    for value in values:
        found = value if isinstance(value, cls) else _first(cls, value) if isinstance(value, (tuple, list)) else None
        if found is not None:
            return found
    return None


def _restored(cls, tensor, said):
    return cls._of(tensor, **said)


def wrap(wrappee, *, like, **kwargs):
    """The tensor as what `like` is; `kwargs` says what differs from it (format, canvas_size, clamping_mode)."""
    if not isinstance(like, TVTensor):
        return wrappee
    unknown = set(kwargs) - set(like._said)
    if unknown:
        raise TypeError(f"wrap: {type(like).__name__} has no {', '.join(map(shown, sorted(unknown)))}")
    with DisableTorchFunctionSubclass():
        plain = wrappee.as_subclass(Tensor)
    return type(like)._of(plain, **like._says() | type(like)._checked(kwargs))
