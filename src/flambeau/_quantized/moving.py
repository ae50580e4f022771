"""Rules of operators that only move elements: they move the codes."""

from .. import _C
from ..ops.kinds import OPS
from .quantize import codes_of
from .rules import refuse, rule
from .tensor import PerChannel, PerTensor, is_quantized, values_of, wrap

#: operators that move single elements, so that codes with one scale go anywhere
ANYWHERE = """view reshape flatten unflatten expand expand_as repeat tile flip fliplr flipud roll rot90 unfold
 as_strided diagonal diag take take_along_dim gather masked_select view_as reshape_as ravel swapaxes swapdims movedim
 moveaxis hsplit vsplit dsplit tensor_split numpy_T mT squeeze index_select select narrow narrow_copy slice t
 transpose permute unsqueeze pixel_shuffle pixel_unshuffle channel_shuffle split split_with_sizes chunk unbind
 broadcast_to unsafe_split unsafe_chunk""".split()
#: of those, the ones that copy, whose results with channels keep the axis
SAME_AXIS = ("narrow", "narrow_copy", "index_select")


def _again(x, found):
    if isinstance(found, (tuple, list)):
        return type(found)(_again(x, part) for part in found)
    return wrap(found, x._quantizer, x.dtype)


def _one_scale(name, x):
    if not isinstance(x._quantizer, PerTensor):
        refuse(name, " with a scale per channel", RuntimeError)


def _anywhere(name):
    def move(self, *args, **kwargs):
        if isinstance(self._quantizer, PerChannel):
            return _with_channels(name, self, args, kwargs)
        return _again(self, OPS[name](self._codes, *args, **kwargs))
    move.__doc__ = f"{name} of the codes."
    return move


for _name in ANYWHERE:
    if _name in OPS:
        rule(_name)(_anywhere(_name))


def _with_channels(name, x, args, kwargs):
    """Where the channels are found again: a marker with the index of each channel goes the same way."""
    marks = _marks(x)
    moved = OPS[name](marks, *args, **kwargs)
    codes = OPS[name](x._codes, *args, **kwargs)
    return _rewrapped(name, x, codes, moved)


def _marks(x):
    shape = [1] * x.ndim
    shape[x._quantizer.axis] = -1
    return OPS["arange"](len(x._quantizer.scales)).reshape(shape).expand(x.shape)


def _rewrapped(name, x, codes, moved):
    if isinstance(codes, (tuple, list)):
        return type(codes)(_rewrapped(name, x, c, m) for c, m in zip(codes, moved, strict=True))
    quantizer = x._quantizer
    axes = [d for d in range(moved.ndim) if moved.shape[d] > 1 and (moved != moved.narrow(d, 0, 1)).any()]
    if not axes and moved.numel():
        channel = moved.flatten()[0].item()
        if moved.ndim and x.shape[quantizer.axis] == 1:
            return wrap(codes, quantizer.on(min(quantizer.axis, moved.ndim - 1)), x.dtype)
        if quantizer.zero_points.is_floating_point():
            refuse(name, " that leaves one channel with a zero point of floating point", RuntimeError)
        return wrap(codes, PerTensor(quantizer.scales[channel].item(), quantizer.zero_points[channel].item()), x.dtype)
    if len(axes) != 1:
        refuse(name, " that mixes channels", RuntimeError)
    (axis,) = axes
    first = moved.select(axis, 0)
    picked = moved
    for d in reversed([d for d in range(moved.ndim) if d != axis]):
        picked = picked.select(d, 0)
    shape = [1] * moved.ndim
    shape[axis] = -1
    if not (moved == picked.reshape(shape)).all() or first.numel() == 0:
        refuse(name, " that mixes channels", RuntimeError)
    return wrap(codes, PerChannel(quantizer.scales[picked], quantizer.zero_points[picked], axis), x.dtype)


@rule("__getitem__")
def _getitem(self, key):
    key = key._codes if is_quantized(key) else key
    if isinstance(self._quantizer, PerChannel):
        return _rewrapped("indexing", self, self._codes[key], _marks(self)[key])
    return wrap(self._codes[key], self._quantizer, self.dtype)


@rule("__setitem__")
def _setitem(self, key, value):
    part = self[key]
    if not is_quantized(value):
        value = OPS["full"](part.shape, float(value)) if isinstance(value, (int, float)) else value.float()
        value = wrap(codes_of(value.expand(part.shape), part._quantizer, self.dtype), part._quantizer, self.dtype)
    elif not value._quantizer.same(part._quantizer) or value.dtype is not self.dtype:
        value = wrap(codes_of(values_of(value).expand(part.shape), part._quantizer, self.dtype), part._quantizer)
    self._codes[key] = value._codes


def _joined(name):
    def join(tensors, dim=0):
        first = tensors[0]
        _one_scale(name, first)
        parts = []
        for t in tensors:
            if not is_quantized(t) or t.dtype is not first.dtype:
                raise RuntimeError(f"{name}: all tensors must be quantized with dtype {first.dtype}")
            same = t._quantizer.same(first._quantizer)
            parts.append(t._codes if same else codes_of(values_of(t), first._quantizer, first.dtype))
        return _again(first, OPS[name](parts, dim))
    join.__doc__ = f"{name}, with the scale of the first."
    return join


for _name in ("cat", "stack"):
    rule(_name)(_joined(_name))


# --- copies -----------------------------------------------------------------------------------------------------------

@rule("clone")
def _clone(self, *, memory_format=_C.preserve_format):
    return _again(self, OPS["clone"](self._codes, memory_format=memory_format))


@rule("contiguous")
def _contiguous(self, memory_format=_C.contiguous_format):
    codes = OPS["contiguous"](self._codes, memory_format=memory_format)
    return self if codes is self._codes else _again(self, codes)


@rule("alias", "detach")
def _same(self, *_):
    return _again(self, OPS["detach"](self._codes))


@rule("_to_copy")
def _to_copy(self, *, dtype=None, device=None):
    if dtype not in (None, self.dtype):
        raise RuntimeError(f"to: a quantized tensor has no other dtype; dequantize() gives float32, got {dtype}")
    return _again(self, OPS["_to_copy"](self._codes, device=device) if device else self._codes.clone())


@rule("copy_")
def _copy(self, src, non_blocking=False):
    """Numbers are quantized with the scale of `self`; codes of the same dtype bring their scale along."""
    if not is_quantized(self):
        raise RuntimeError("copy_: a quantized tensor into one of numbers: use dequantize() first")
    if not is_quantized(src):
        if src.dtype is not _C.float32:
            raise RuntimeError(f"copy_: numbers must be float32 to be quantized, got {src.dtype}")
        self._codes.copy_(codes_of(src.detach().expand(self.shape), self._quantizer, self.dtype))
    elif src.dtype is not self.dtype:
        raise RuntimeError(f"copy_: expected a quantized tensor of dtype {self.dtype}, got {src.dtype}")
    else:
        if src.shape != self.shape:
            raise RuntimeError(f"copy_: expected shape {list(self.shape)}, got {list(src.shape)}")
        self._codes.copy_(src._codes)
        self._quantizer = src._quantizer
    return self


@rule("fill_")
def _fill(self, value):
    return _copy(self, OPS["full"]((), float(value)).expand(self.shape))


def _like(name):
    def make(self, *args, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
             memory_format=None):
        if dtype not in (None, self.dtype) or requires_grad or pin_memory:
            refuse(name, " with another dtype, requires_grad or pin_memory")
        if layout not in (None, _C.strided):
            refuse(name, f" in layout {layout}")
        codes = OPS["empty_like"](self._codes, device=device, memory_format=memory_format)
        found = _again(self, codes)
        value = {"ones_like": 1.0, "zeros_like": 0.0}.get(name, args[0] if args else None)
        return found if value is None else found.fill_(value)
    make.__doc__ = f"{name}, with the same scale."
    return make


for _name in ("empty_like", "zeros_like", "ones_like", "full_like"):
    rule(_name)(_like(_name))
