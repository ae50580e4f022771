"""Which code runs for which kind of input: an operation has one kernel per kind."""

import inspect

from ..... import Tensor
from ....._shown import shown
from ....tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, TVTensor, Video, wrap
from ..._kinds import is_pil

#: {operation: {kind: what runs}}; "pil" stands for Pillow images, "pure" for tensors that are no TVTensor
KERNELS = {}
_BUILTIN = (Image, Video, Mask, BoundingBoxes, KeyPoints)


def is_pure_tensor(inpt):
    """Whether it is a tensor that does not say what it means."""
    return isinstance(inpt, Tensor) and not isinstance(inpt, TVTensor)


def _names(kernel):
    return set(inspect.signature(kernel).parameters)


def _on_pixels(kernel):
    names = _names(kernel)

    def run(inpt, given):
        found = kernel(inpt.as_subclass(Tensor), **{k: v for k, v in given.items() if k in names})
        if isinstance(found, tuple):
            return tuple(wrap(part, like=inpt) for part in found)
        return wrap(found, like=inpt) if isinstance(found, Tensor) else found
    return run


def _on_plain(kernel):
    names = _names(kernel)
    return lambda inpt, given: kernel(inpt, **{k: v for k, v in given.items() if k in names})


def _on_marks(kernel):
    """For boxes and points: the kernel is told the format and the size, and may give a new size."""
    names = _names(kernel)

    def run(inpt, given):
        given = {**given, **{name: getattr(inpt, name) for name in inpt._said}}
        found = kernel(inpt.as_subclass(Tensor), **{k: v for k, v in given.items() if k in names})
        if isinstance(found, tuple):
            return wrap(found[0], like=inpt, canvas_size=tuple(found[1]))
        return wrap(found, like=inpt)
    return run


def kernels(operation, image=None, pil=None, mask=None, boxes=None, points=None, video=None):
    """Say what an operation does with each kind; a kind that is left out is none of its business."""
    table = KERNELS.setdefault(operation, {})
    if image is not None:
        table |= {"pure": _on_plain(image), Image: _on_pixels(image)}
    if image is not None or video is not None:
        table[Video] = _on_pixels(video or image)
    for kind, kernel, how in (("pil", pil, _on_plain), (Mask, mask, _on_pixels), (BoundingBoxes, boxes, _on_marks),
                              (KeyPoints, points, _on_marks)):
        if kernel is not None:
            table[kind] = how(kernel)


def found(operation, inpt):
    """What runs for this input; None where the operation leaves such things alone."""
    table = KERNELS[operation]
    if isinstance(inpt, TVTensor):
        return next((table[kind] for kind in type(inpt).__mro__ if kind in table), None)
    return table.get("pil" if is_pil(inpt) else "pure" if isinstance(inpt, Tensor) else None)


def run(operation, inpt, **given):
    """The operation on one input, or a TypeError that says what it takes."""
    kernel = found(operation, inpt)
    if kernel is None:
        kinds = ", ".join("tensors" if k == "pure" else "Pillow images" if k == "pil" else k.__name__
                          for k in KERNELS[operation])
        raise TypeError(f"{operation.__name__}: takes {kinds}, got {type(inpt).__name__}")
    return kernel(inpt, given)


def register_kernel(functional, tv_tensor_cls):
    """A decorator: the function does `functional` for a TVTensor class of one's own; a name of it is enough."""
    if isinstance(functional, str):
        named = {operation.__name__: operation for operation in KERNELS}
        if functional not in named:
            raise ValueError(f"register_kernel: there is no operation {shown(functional)}")
        functional = named[functional]
    if functional not in KERNELS:
        raise ValueError(f"register_kernel: {shown(functional)} is none of the operations of this module")
    if not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, TVTensor)):
        raise ValueError(f"register_kernel: a subclass of TVTensor is needed, got {shown(tv_tensor_cls)}")
    if tv_tensor_cls in _BUILTIN:
        raise ValueError(f"register_kernel: {tv_tensor_cls.__name__} has a kernel of its own; subclass it")
    if tv_tensor_cls in KERNELS[functional]:
        raise ValueError(f"register_kernel: {functional.__name__} has a kernel for {tv_tensor_cls.__name__} already")

    def register(kernel):
        KERNELS[functional][tv_tensor_cls] = lambda inpt, given: kernel(inpt, **given)
        return kernel
    return register
