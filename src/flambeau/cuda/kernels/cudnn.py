"""Convolutions and batch normalisation by cuDNN: what it is told about the operands, and which go another way."""

import math

from ... import backends
from ...backends import _switches
from .launches import Build, Parameter, numel, row_major, sizes, tensor
from .libraries import NULL, deterministic, present, run
from .products import accumulated, channel_sums

_TYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
_MOST = 2**31 - 1


def usable(call, *infos):
    """Whether cuDNN is there, allowed, and computes with these tensors."""
    return (present(call, "cudnn") and _switches.get("cudnn") and infos[0].dtype in _TYPES
            and all(x.dtype == infos[0].dtype and 0 < numel(x) <= _MOST for x in infos))


def last_strides(shape):
    """Strides of [batch, channels, …] where the channels lie last."""
    moved = row_major((shape[0], *shape[2:], shape[1]))
    return [moved[0], moved[-1], *moved[1:-1]]


def _lies(info, strides):
    return all(size == 1 or a == b for size, a, b in zip(info.shape, info.strides, strides, strict=True))


def channels_last(info):
    """Whether the channels lie last, and that is not the order of rows too."""
    return _lies(info, last_strides(info.shape)) and not _lies(info, row_major(info.shape))


class Placed:
    """An operand in one of the two orders, in place or copied: its parameter, strides and alignment."""

    def __init__(self, build, name, info, last, written=False):
        self.info, self.strides = info, last_strides(info.shape) if last else row_major(info.shape)
        own = _lies(info, self.strides)
        self.alignment = _TYPES[info.dtype] if own and not info.aligned else 16
        if own:
            self.parameter = tensor(name, info, build.call.name, written)
        else:
            self.parameter = (build.output_as if written else build.input_as)(name, info, self.strides)

    def described(self, name):
        """The constants that describe it, with four dimensions at least."""
        shape, strides = list(self.info.shape), list(self.strides)
        if len(shape) == 3:
            shape.insert(2, 1)
            strides.insert(2, shape[3] * strides[2])
        return {name: tuple(shape), f"{name}_strides": tuple(strides), f"{name}_alignment": self.alignment}


# --- convolution ------------------------------------------------------------------------------------------------------

class _Convolution:
    """What the calls of one convolution share; `big` is what an ordinary one reads, `small` what it writes."""

    def __init__(self, build, big, small, weight, stride, padding, dilation):
        rank = len(big.shape) - 2
        stride, padding, dilation = ((list(v) * rank)[:rank] for v in (stride, padding, dilation))
        self.fits = 1 <= rank <= 3 and all(
            (b + 2 * p - d * (k - 1) - 1) // s + 1 == n for b, n, k, s, p, d in
            zip(big.shape[2:], small.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True))
        fill = [0] * (rank == 1)
        self.build, self.dtype = build, big.dtype
        self.told = {"stride": (*(1 for _ in fill), *stride), "padding": (*fill, *padding),
                     "dilation": (*(1 for _ in fill), *dilation)}

    def run(self, way, x, w, y):
        run(self.build, "cudnn.convolution", (x.parameter, w.parameter, y.parameter), way=way, dtype=self.dtype,
            **x.described("x"), **w.described("w"), **y.described("y"), **self.told, tf32=_switches.get("conv_tf32"),
            deterministic=deterministic(), benchmark=_switches.get("benchmark"),
            benchmark_limit=backends.cudnn.benchmark_limit or _MOST)


def _convolution(call):
    x, weight, bias, stride, padding, dilation, transposed, _, _ = call.args
    out = call.results[0]
    if not usable(call, x, weight, out) or (bias and bias.dtype != x.dtype):
        return None
    build, last = Build(call), channels_last(x) or channels_last(weight)
    big, small = (out, x) if transposed else (x, out)
    conv = _Convolution(build, big, small, weight, stride, padding, dilation)
    if not conv.fits:
        return None
    given, w = Placed(build, "x", x, last), Placed(build, "w", weight, last)
    made = Placed(build, "out", out, last, True)
    if transposed:
        conv.run("data", made, w, given)
    else:
        conv.run("forward", given, w, made)
    if bias:
        _add_bias(build, made, bias, last)
    return build.plan()


def _add_bias(build, made, bias, last):
    info = made.info
    wide, kind = build.wide(info), build.type(info)
    channel = "i_ % Index(channels)" if last else "i_ / Index(inner) % Index(channels)"
    build.each(numel(info), f"  out[i_] = cast<{kind}>(cast<{wide}>(out[i_]) + cast<{wide}>(bias[{channel}]));\n",
               [Parameter(f"{kind}* out", made.parameter.value), build.input("bias", bias),
                *sizes(inner=math.prod(info.shape[2:]), channels=info.shape[1])])


def _convolution_backward(call):
    grad, x, weight, _, stride, padding, dilation, transposed, _, _, mask = call.args
    to_x, to_w, to_b = call.results
    if not usable(call, grad, x, weight):
        return None
    build, last = Build(call), channels_last(x) or channels_last(weight)
    big, small = (grad, x) if transposed else (x, grad)
    conv = _Convolution(build, big, small, weight, stride, padding, dilation)
    if not conv.fits:
        return None
    g = Placed(build, "grad", grad, last)
    if mask[0]:
        w, made = Placed(build, "w", weight, last), Placed(build, "to_x", to_x, last, True)
        conv.run("forward", g, w, made) if transposed else conv.run("data", made, w, g)
    if mask[1]:
        data, made = Placed(build, "x", x, last), Placed(build, "to_w", to_w, last, True)
        conv.run("filter", *((g, made, data) if transposed else (data, made, g)))
    if mask[2]:
        rows = (numel(grad) // grad.shape[1], grad.shape[1], 1) if last else \
            (grad.shape[0], grad.shape[1], math.prod(grad.shape[2:]))
        channel_sums(build, g.parameter, build.output("out", to_b), to_b, *rows, accumulated(build, grad))
    return build.plan()


# --- batch normalisation ----------------------------------------------------------------------------------------------

def _statistics_fit(x, *tensors):
    kept = "float64" if x.dtype == "float64" else "float32"
    return all(t is not None and t.dtype == kept and len(t.shape) == 1 and _lies(t, [1]) for t in tensors)


def _norm(build, x, last, operands, way, eps, momentum=0.0):
    n, channels, inner = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    strides = (channels * inner, 1, channels * inner, channels) if last else (channels * inner, inner, inner, 1)
    run(build, "cudnn.batch_norm", operands, way=way, dtype=x.dtype, sizes=(n, channels, 1, inner), strides=strides,
        eps=float(eps), momentum=float(momentum))


def _at(build, name, info):
    return tensor(name, info, build.call.name)


def _batch_norm(call):
    x, weight, bias, mean, var, training, momentum, eps = call.args
    out, saved_mean, saved_scale = call.results
    if not training or not usable(call, x, out) or not _statistics_fit(x, weight, bias, saved_mean, saved_scale) \
            or (mean is None) != (var is None) or (mean and not _statistics_fit(x, mean, var)):
        return None
    build, last = Build(call), channels_last(x)
    given, made = Placed(build, "x", x, last), Placed(build, "out", out, last, True)
    running = [_at(build, "running", r) if r else NULL for r in (mean, var)]
    _norm(build, x, last, [given.parameter, _at(build, "weight", weight), _at(build, "bias", bias), *running,
                           made.parameter, _at(build, "mean", saved_mean), _at(build, "scale", saved_scale)], "train",
          eps, momentum)
    return build.plan()


def _batch_norm_backward(call):
    grad, x, weight, _, _, saved_mean, saved_scale, training, eps = call.args
    to_x, to_weight, to_bias = call.results
    if not training or not usable(call, grad, x) \
            or not _statistics_fit(x, weight, saved_mean, saved_scale, to_weight, to_bias) \
            or not numel(saved_mean) or not numel(to_weight):
        return None
    build, last = Build(call), channels_last(x)
    g, data, made = (Placed(build, "grad", grad, last), Placed(build, "x", x, last),
                     Placed(build, "to_x", to_x, last, True))
    _norm(build, x, last, [g.parameter, data.parameter, *(_at(build, "given", t) for t in (
        weight, saved_mean, saved_scale)), made.parameter, _at(build, "to", to_weight), _at(build, "to", to_bias)],
        "backward", eps)
    return build.plan()


RULES = {
    "convolution": _convolution, "convolution_backward": _convolution_backward, "native_batch_norm": _batch_norm,
    "_batch_norm_backward": _batch_norm_backward,
}
