"""Rules of operators that compute with quantized numbers: on the codes where the order of codes is enough, otherwise on
the numbers, whose results are quantized again."""

from .. import _C
from ..ops.kinds import OPS
from .quantize import codes_of
from .results import mapped
from .rules import refuse, rule
from .tensor import CODES, PerTensor, has_channels_last, is_quantized, values_of, wrap


def _plain(x):
    return values_of(x) if is_quantized(x) else x


def _compared(name):
    def compare(self, other, *tolerances, **named):
        return OPS[name](_plain(self), _plain(other), *tolerances, **named)
    compare.__doc__ = f"{name} of the numbers."
    return compare


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "isclose"):
    rule(_name)(_compared(_name))


def _code(x, value):
    """The code of one number, in the scale of x."""
    return codes_of(OPS["full"]((), float(value)), x._quantizer, x.dtype).item()


def _uniform(name, x):
    if not isinstance(x._quantizer, PerTensor):
        refuse(name, " with a scale per channel")


def _again(x, codes):
    return wrap(codes, x._quantizer, x.dtype)


@rule("relu")
def _relu(self):
    _uniform("relu", self)
    return _again(self, self._codes.clamp(min=self._quantizer.zero_point))


@rule("clamp")
def _clamp(self, min=None, max=None):
    _uniform("clamp", self)
    return _again(self, self._codes.clamp(None if min is None else _code(self, min),
                                          None if max is None else _code(self, max)))


@rule("hardtanh")
def _hardtanh(self, min_val=-1, max_val=1, inplace=False):
    found = _clamp(self, min_val, max_val)
    return self.copy_(found) if inplace else found


@rule("relu6")
def _relu6(self, inplace=False):
    return _hardtanh(self, 0, 6, inplace)


def _requantized(name):
    def compute(self, *args, **kwargs):
        _uniform(name, self)
        return _again(self, codes_of(OPS[name](values_of(self), *args, **kwargs), self._quantizer, self.dtype))
    compute.__doc__ = f"{name} of the numbers, quantized with the same scale."
    return compute


for _name in ("mean", "std", "masked_fill", "pad", "where", "grid_sample"):
    if _name in OPS:
        rule(_name)(_requantized(_name))


def _averaged(name):
    """Means of codes, in units of the scale. Where two codes are equally near, PyTorch's choice depends on how images
    lie: with channels last the mean rounds without the zero point, otherwise with it."""
    def compute(self, *args, **kwargs):
        _uniform(name, self)
        (kind, low, high), zero = CODES[self.dtype], self._quantizer.zero_point
        found = OPS[name]((self._codes.double() - zero).float(), *args, **kwargs)
        found = found.round() + zero if has_channels_last(self._codes) else (found + zero).round()
        return _again(self, found.clamp(low, high).to(kind))
    compute.__doc__ = f"{name} of the codes."
    return compute


for _name in ("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "interpolate"):
    rule(_name)(_averaged(_name))


def _tabled(name):
    """Functions of single numbers, with the same scale."""
    def compute(self, *args, inplace=False, **kwargs):
        _uniform(name, self)
        found = mapped(OPS[name], self, self._quantizer, *args, *kwargs.values())
        return self.copy_(found) if inplace else found
    compute.__doc__ = f"{name} of the numbers, with the same scale."
    return compute


for _name in ("leaky_relu", "threshold", "hardswish", "elu"):
    rule(_name)(_tabled(_name))


def _gelu_of(x, approximate):
    return OPS["gelu"](x, approximate=approximate)


@rule("gelu")
def _gelu(self, *, approximate="none"):
    _uniform("gelu", self)
    return mapped(_gelu_of, self, self._quantizer, approximate)


def _fixed(name, signed):
    """Functions whose results lie in a known range have the scale of that range."""
    def compute(self, *args, **kwargs):
        _uniform(name, self)
        _, low, high = CODES[self.dtype]
        scale = (2.0 if signed else 1.0) / 256
        zero = (low + high + 1) // 2 if signed else low
        if self.dtype is _C.qint32:
            scale, zero = (2.0 if signed else 1.0) / 2**32, 0
        return mapped(OPS[name], self, PerTensor(scale, zero), *args, *kwargs.values())
    compute.__doc__ = f"{name} of the numbers, with a scale that fits its range."
    return compute


for _name, _signed in (("sigmoid", False), ("tanh", True), ("hardsigmoid", False)):
    rule(_name)(_fixed(_name, _signed))


def _ordered(name):
    """Codes are in the order of their numbers."""
    def compute(self, *args, **kwargs):
        _uniform(name, self)
        found = OPS[name](self._codes if self.dtype is not _C.qint32 else self._codes.long(), *args, **kwargs)
        if isinstance(found, tuple):
            return type(found)((_again(self, found[0].to(self._codes.dtype)), *found[1:]))
        return _again(self, found.to(self._codes.dtype))
    compute.__doc__ = f"{name} of the codes."
    return compute


for _name in ("max", "min", "amax", "amin", "sort", "topk", "median", "kthvalue"):
    if _name in OPS:
        rule(_name)(_ordered(_name))


def _last_images(x):
    return x.ndim == 4 and x.dtype is not _C.qint32 and has_channels_last(x._codes) and x.numel()


def _pooled(size, kernel, stride, padding, dilation, ceil_mode):
    """How many windows there are along one dimension."""
    last = size + 2 * padding - dilation * (kernel - 1) - 1
    found = (last + (stride - 1 if ceil_mode else 0)) // stride + 1
    return found - 1 if ceil_mode and (found - 1) * stride >= size + padding else found


def _two(value):
    return (value, value) if isinstance(value, int) else tuple(value) * (3 - len(value))


def _max_pool_last(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """max_pool2d of images with channels last, in one pass."""
    kernel, padding, dilation = _two(kernel_size), _two(padding), _two(dilation)
    stride = kernel if stride is None or stride == [] or stride == () else _two(stride)
    sizes = [_pooled(*at, ceil_mode) for at in zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)]
    return _again(x, OPS["_code_max_pool2d"](x._codes, kernel, stride, padding, dilation, sizes))


def _max_pool(name):
    def compute(self, *args, return_indices=False, **kwargs):
        _uniform(name, self)
        if name == "max_pool2d" and not return_indices and len(args) < 6 and _last_images(self):
            return _max_pool_last(self, *args, **kwargs)
        kwargs |= {"return_indices": True} if return_indices else {}
        found = OPS[name](self._codes.float(), *args, **kwargs)
        if isinstance(found, tuple):
            return (_again(self, found[0].to(self._codes.dtype)), *found[1:])
        return _again(self, found.to(self._codes.dtype))
    compute.__doc__ = f"{name} of the codes."
    return compute


for _name in ("max_pool1d", "max_pool2d", "max_pool3d"):
    if _name in OPS:
        rule(_name)(_max_pool(_name))


@rule("prelu")
def _prelu(self, weight):
    _uniform("prelu", self)
    return _again(self, codes_of(OPS["prelu"](_plain(self), _plain(weight)), self._quantizer, self.dtype))


@rule("is_nonzero")
def _is_nonzero(self):
    return bool(values_of(self))


@rule("equal")
def _equal(self, other):
    """As PyTorch: the same codes with the same scale."""
    if not (is_quantized(self) and is_quantized(other)):
        raise RuntimeError("equal: one tensor is quantized and one is not; dequantize() it first")
    return self.dtype is other.dtype and self.shape == other.shape and self._quantizer.same(other._quantizer) \
        and OPS["eq"](self._codes, other._codes).all().item()
