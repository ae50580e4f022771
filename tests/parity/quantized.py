"""Operators of static quantization as programs that both libraries run; as a script it pickles what PyTorch gives.

Weights and inputs come from NumPy, one stream for each case, so that both get the same. Activations have codes of 7
bits where products are summed: PyTorch's engine clips sums of two products of 8 bits on some processors.
"""

import pickle
import sys
import zlib
from pathlib import Path

import numpy as np


class Numbers:
    """The numbers and quantized tensors of one case."""

    def __init__(self, torch, name):
        self.torch, self.stream = torch, np.random.default_rng(zlib.crc32(name.encode()))

    def floats(self, *shape):
        return self.torch.from_numpy(self.stream.standard_normal(shape).astype(np.float32))

    def codes(self, *shape, scale=0.03, zero=60, dtype="quint8"):
        return self.torch.quantize_per_tensor(self.floats(*shape), scale, zero, getattr(self.torch, dtype))

    def seven_bits(self, *shape):
        x = self.floats(*shape).clamp(-3.6, 4.0)
        return self.torch.quantize_per_tensor(x, 0.06, 60, self.torch.quint8)

    def weight(self, kind, *shape):
        x, torch = self.floats(*shape), self.torch
        if kind == "tensor":
            return torch.quantize_per_tensor(x, 0.02, 0, torch.qint8)
        steps = torch.from_numpy(self.stream.uniform(0.005, 0.03, shape[0]))
        zeros = torch.from_numpy(self.stream.integers(-5, 6, shape[0]))
        return torch.quantize_per_channel(x, steps, zeros, 0, torch.qint8)


def linear(m, k, n, kind, relu):
    def run(torch, of):
        packed = torch.ops.quantized.linear_prepack(of.weight(kind, n, k), of.floats(n))
        call = torch.ops.quantized.linear_relu if relu else torch.ops.quantized.linear
        return call(of.seven_bits(m, k), packed, 0.3, 100)
    return run


def conv(dims, channels, out, kernel, stride, padding, dilation, groups, size, kind):
    def run(torch, of):
        prepack = getattr(torch.ops.quantized, f"conv{dims}d_prepack")
        packed = prepack(of.weight(kind, out, channels // groups, *[kernel] * dims), of.floats(out), [stride] * dims,
                         [padding] * dims, [dilation] * dims, groups)
        x = of.seven_bits(2, channels, *[size] * dims)
        return getattr(torch.ops.quantized, f"conv{dims}d")(x, packed, 0.25, 70)
    return run


def transposed(dims, channels, out, stride, groups):
    def run(torch, of):
        prepack = getattr(torch.ops.quantized, f"conv_transpose{dims}d_prepack")
        packed = prepack(of.weight("tensor", channels, out // groups, *[3] * dims), of.floats(out), [stride] * dims,
                         [1] * dims, [0] * dims, [1] * dims, groups)
        return getattr(torch.ops.quantized, f"conv_transpose{dims}d")(of.seven_bits(2, channels, *[5] * dims), packed,
                                                                      0.25, 70)
    return run


def simple(name, dtype, last, *args, count=1):
    """An operator of one or two tensors; `last`: with their channels last."""
    zero = 100 if dtype == "quint8" else 3

    def run(torch, of):
        given = [of.codes(2, 8, 9, 7, scale=0.02 + 0.011 * k, zero=zero - 7 * k, dtype=dtype) for k in range(count)]
        if last:
            given = [x.contiguous(memory_format=torch.channels_last) for x in given]
        return getattr(torch.ops.quantized, name)(*given, *args)
    return run


def norm(name, dtype):
    def run(torch, of):
        x = of.codes(2, 4, 6, 5, zero=3, dtype=dtype)
        w, b, mean, var = of.floats(4), of.floats(4), of.floats(4), of.floats(4).abs() + 0.1
        call, to = getattr(torch.ops.quantized, name), (1e-5, 0.03, 5)
        return {"batch_norm2d": lambda: call(x, w, b, mean, var, *to),
                "batch_norm2d_relu": lambda: call(x, w, b, mean, var, *to),
                "layer_norm": lambda: call(x, [6, 5], of.floats(6, 5), None, *to),
                "group_norm": lambda: call(x, 2, w, b, *to), "instance_norm": lambda: call(x, w, b, *to)}[name]()
    return run


def pool(name, last, *args):
    def run(torch, of):
        x = of.codes(2, 8, 9, 7)
        x = x.contiguous(memory_format=torch.channels_last) if last else x
        return getattr(torch.nn.functional, name)(x, *args)
    return run


GEOMETRIES = [(4, 6, 3, 1, 0, 1, 1, 8), (3, 16, 7, 2, 3, 1, 1, 20), (16, 32, 1, 2, 0, 1, 1, 9),
              (16, 16, 3, 1, 1, 1, 16, 9), (16, 32, 3, 2, 1, 1, 4, 11), (8, 8, 3, 1, 2, 2, 8, 9),
              (64, 40, 3, 1, 1, 1, 1, 14)]
BYTES, ORDERS, WEIGHTS = ("quint8", "qint8"), (False, True), ("tensor", "channels")
TWO = ("add", "add_relu", "mul", "mul_relu")
NUMBER = ("add_scalar", "add_scalar_relu", "mul_scalar", "mul_scalar_relu")
FUNCTIONS = {"hardswish": (0.03, 5), "elu": (0.03, 5), "celu": (0.03, 5, 1.3), "sigmoid": (1 / 256, 0),
             "softmax": (-1, 1 / 256, 0), "leaky_relu": (0.1, False, 0.03, 5), "relu6": (), "threshold": (0.1, 0.2),
             "clamp": (-0.1, 0.5)}
NORMS = ("batch_norm2d", "batch_norm2d_relu", "layer_norm", "group_norm", "instance_norm")
POOLS = [("max_pool2d", (3, 2, 1)), ("max_pool2d", (2,)), ("avg_pool2d", (3,)), ("avg_pool2d", (2, 2, 1)),
         ("adaptive_avg_pool2d", (1,)), ("interpolate", (None, 2))]
CASES = {
    **{f"linear {m, k, n} {kind} {relu}": linear(m, k, n, kind, relu)
       for m, k, n in ((1, 300, 40), (33, 64, 32), (5, 7, 9)) for kind in WEIGHTS for relu in (False, True)},
    **{f"conv2d {g} {kind}": conv(2, *g, kind) for g in GEOMETRIES for kind in WEIGHTS},
    **{f"conv{dims}d {g}": conv(dims, *g[:-1], 7, "channels")
       for dims in (1, 3) for g in (*GEOMETRIES[:1], *GEOMETRIES[2:6])},
    **{f"conv_transpose{dims}d {stride} {groups}": transposed(dims, 4, 6, stride, groups)
       for dims in (1, 2, 3) for stride in (1, 2) for groups in (1, 2)},
    **{f"{name} {dtype} {last}": simple(name, dtype, last, 0.05, 5, count=2)
       for name in TWO for dtype in BYTES for last in ORDERS},
    **{f"{name} {value} {dtype}": simple(name, dtype, False, value)
       for name in NUMBER for value in (0.3, -2.0, 9.0, -9.0) for dtype in BYTES},
    **{f"{name} {dtype} {last}": simple(name, dtype, last, *args)
       for name, args in FUNCTIONS.items() for dtype in BYTES for last in ORDERS},
    **{f"{name} {dtype}": norm(name, dtype) for name in NORMS for dtype in BYTES},
    **{f"{name} {last} {args}": pool(name, last, *args) for name, args in POOLS for last in ORDERS},
}


def run(torch):
    """{case: (codes, scale, zero point, dtype, strides)}."""
    found = {}
    for name, case in CASES.items():
        q = case(torch, Numbers(torch, name))
        found[name] = q.int_repr().numpy().copy(), q.q_scale(), q.q_zero_point(), str(q.dtype), tuple(q.stride())
    return found


if __name__ == "__main__":
    import warnings

    import torch

    warnings.simplefilter("ignore")
    Path(sys.argv[1]).write_bytes(pickle.dumps(run(torch)))
