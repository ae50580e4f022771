"""Fourier transforms by cuFFT: dimensions in any place, padded or cut to their lengths, scaled on the way out."""

import math

from .launches import Build, Parameter, collapse, layout, number, numel, row_major, tensor
from .libraries import present, refuse_without, run

_TYPES = {"float32": ("float", 4), "float64": ("double", 8), "complex64": ("complex64", 8),
          "complex128": ("complex128", 16)}
_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_MOST_DIMS = 3  # that cuFFT transforms at once


class _Data:
    """Elements in memory: a parameter's value, dtype, shape and strides."""

    def __init__(self, value, dtype, shape, strides):
        self.value, self.dtype, self.shape, self.strides = value, dtype, list(shape), list(strides)

    def permuted(self, order):
        return _Data(self.value, self.dtype, [self.shape[d] for d in order], [self.strides[d] for d in order])

    def runs(self):
        """Whether elements lie in row-major order."""
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self.strides, row_major(self.shape), strict=True))


def _room(build, dtype, shape):
    return _Data(build.scratch(math.prod(shape) * _TYPES[dtype][1]), dtype, shape, row_major(shape))


def _copy(build, out, x, scale=1.0, conjugate=False):
    """The elements that both have room for, times a number, conjugated where asked; the rest of `out` becomes 0."""
    kind = _TYPES[x.dtype][0]
    real = "double" if x.dtype in ("float64", "complex128") else "float"
    common = [min(a, b) for a, b in zip(out.shape, x.shape, strict=True)]
    if common != out.shape:
        build.zeros(Parameter("", out.value), math.prod(out.shape) * _TYPES[x.dtype][1])
    sizes, to, strides = collapse(common, out.strides, x.strides)
    value = f"v_ * {real}(scale)"
    if x.dtype.startswith("complex"):
        value = f"{kind}{{v_.re * {real}(scale), v_.im * {real}({'-' * conjugate}scale)}}"
    build.each(math.prod(common), f"  const {kind} v_ = x[offset_of<Index>(i_, from)];\n"
               f"  out[offset_of<Index>(i_, to)] = {value};\n",
               [Parameter(f"{kind}* out", out.value), Parameter(f"const {kind}* x", x.value), layout("to", sizes, to),
                layout("from", sizes, strides), number("double", "scale", scale)], index="int64_t")


def _transform(build, kind, x, dims, lengths, forward, conjugate=False):
    """One call of the library over up to three dimensions: the result, in the order of the dimensions of x."""
    others = [d for d in range(len(x.shape)) if d not in dims]
    order = [*others, *dims]
    given = x.permuted(order)
    shape = [*(x.shape[d] for d in others), *lengths]
    taken = shape[:-1] + [lengths[-1] // 2 + 1] if kind == "c2r" else shape
    if given.shape != taken or not given.runs() or conjugate or kind == "c2r":  # which overwrites what it reads
        packed = _room(build, x.dtype, taken)
        _copy(build, packed, given, conjugate=conjugate)
        given = packed
    dtype = _COMPLEX[x.dtype] if kind == "r2c" else x.dtype
    if kind == "c2r":
        dtype = next(real for real, wide in _COMPLEX.items() if wide == x.dtype)
    made = _room(build, dtype, shape[:-1] + [lengths[-1] // 2 + 1] if kind == "r2c" else shape)
    run(build, "cufft.transform", (given, made), kind=kind, wide=x.dtype in ("float64", "complex128"), forward=forward,
        sizes=tuple(lengths), batch=math.prod(x.shape[d] for d in others))
    return made.permuted([order.index(d) for d in range(len(order))])


def _rule(kind):
    def rule(call):
        x, dims, lengths, scale, forward = call.args
        out = call.results[0]
        if not numel(out):
            return Build(call).plan()
        if not present(call, "cufft"):
            refuse_without(call, "cufft")
        build = Build(call)
        data = _Data(tensor("x", x, call.name).value, x.dtype, x.shape, x.strides)
        dims, lengths = [d % len(x.shape) for d in dims], list(lengths)
        last, chunks = slice(max(len(dims) - _MOST_DIMS, 0), None), []
        for end in range(last.start, 0, -_MOST_DIMS):
            chunks.append(slice(max(end - _MOST_DIMS, 0), end))
        conjugate = False
        if kind != "c2r":  # the last dimensions first: of real numbers half of them is left
            conjugate = kind == "r2c" and not forward
            way = forward or kind == "r2c"
            data = _transform(build, kind, data, dims[last], lengths[last], way)
            for chunk in chunks:
                data = _transform(build, "c2c", data, dims[chunk], lengths[chunk], way)
        else:
            turned = forward  # cuFFT goes back to real numbers only: the forward transform is that of the conjugate
            for chunk in chunks:
                data = _transform(build, "c2c", data, dims[chunk], lengths[chunk], False, turned)
                turned = False
            data = _transform(build, kind, data, dims[last], lengths[last], False, turned)
        _copy(build, _Data(tensor("out", out, call.name).value, out.dtype, out.shape, out.strides), data, scale,
              conjugate)
        return build.plan()
    return rule


RULES = {"_fft_c2c": _rule("c2c"), "_fft_r2c": _rule("r2c"), "_fft_c2r": _rule("c2r")}
