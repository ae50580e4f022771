"""Convolutions by cuDNN: what it is told about the operands, and which go another way."""

import math

from ... import backends
from ...backends import _switches
from .channels import channel_sums
from .launches import Build, Parameter, numel, sizes
from .layouts import Placed, channels_last
from .libraries import deterministic, present, run
from .products import accumulated

_TYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
_MOST = 2**31 - 1


def usable(call, *infos):
    """Whether cuDNN is there, allowed, and computes with these tensors."""
    return (present(call, "cudnn") and _switches.get("cudnn") and infos[0].dtype in _TYPES
            and all(x.dtype == infos[0].dtype and 0 < numel(x) <= _MOST for x in infos))


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
        channel_sums(build, g.parameter, build.output("out", to_b), to_b, *rows, accumulated(build, grad),
                     g.alignment == 16)
    return build.plan()


RULES = {"convolution": _convolution, "convolution_backward": _convolution_backward}
