"""Calls of operators as kernel launches on the CPU: a call's signature, the kernel, its parameters, the numbers."""

import ctypes
import math
import re
from typing import NamedTuple

import flambeau
from flambeau.cuda._calls import Operand
from flambeau.cuda.kernels import arranging, pointwise
from flambeau.cuda.kernels.compiling import compile
from flambeau.ops.kinds import FACTS, OPS

from .. import emulate

_MASKS = {"where": 0, "masked_fill": 1}
_SCALARS = {int: lambda v: "int", float: lambda v: "float", complex: lambda v: "complex",
            bool: lambda v: ("bool", v), str: lambda v: ("str", v[0]), type(None): lambda v: "absent"}
_PASSED = {int: "int64", float: "float64", complex: "complex128"}


def short(dtype):
    return str(dtype).removeprefix("torch.").removeprefix("flambeau.")


class Call(NamedTuple):
    """A pointwise call's signature, as native code hands it over."""
    name: str
    form: str
    operands: tuple
    compute: str
    result: str
    scalars: tuple
    index: int
    aligned: bool
    arch: str = "emulate"
    vector: int = 0


def number(value, dtype):
    """A number as a kernel's parameter: a tensor's bytes."""
    return (ctypes.c_char * 16).from_buffer_copy(raw(flambeau.tensor(value, dtype=getattr(flambeau, dtype))))


def raw(tensor):
    return ctypes.string_at(tensor.data_ptr(), tensor.itemsize).ljust(16, b"\0")


def geometry(tensors):
    """Sizes and strides as kernels take them, innermost dimension first."""
    return walk([max(n, 1) for n in tensors[0].shape[::-1]], [t.stride()[::-1] for t in tensors])


def walk(sizes, strides):
    data = arranging.geometry(sizes, strides)
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


class PointwiseCall:
    """One call of a pointwise operator, taken apart as native code does."""

    def __init__(self, name, args, kwargs):
        self.name = name
        bound = OPS[name].__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        values = [v for k, v in bound.arguments.items() if k != "out"]
        self.operands = len(re.findall(r"Tensor\?? \w", FACTS[name][1]))
        self.result = OPS[name](*args, **kwargs)
        self.values = values
        plain = OPS[name](*args, **{k: v for k, v in kwargs.items() if k != "out"})
        self.tensors = [v for v in values[:self.operands] if isinstance(v, flambeau.Tensor)]
        self.compute = self._compute(values[:self.operands], plain)

    def _compute(self, operands, result):
        tensors = [v for v in operands if isinstance(v, flambeau.Tensor)]
        if self.name.startswith("logical_"):
            return "bool"
        if self.name in ("complex", "polar", "abs", "angle") or result.dtype == flambeau.bool:
            own = tensors[0].dtype
            for v in operands[1:]:
                if v is not None:
                    own = flambeau.result_type(flambeau.empty(1, dtype=own), v)
            floating = flambeau.get_default_dtype() if self.name == "angle" and not own.is_floating_point \
                and not own.is_complex else own
            return short(floating)
        return short(result.dtype)

    def signature(self, form, index, aligned):
        operands, mask = [], _MASKS.get(self.name)
        for k, v in enumerate(self.values[:self.operands]):
            own = "bool" if k == mask else self.compute
            kind = "absent" if v is None else "tensor" if isinstance(v, flambeau.Tensor) else "number"
            operands.append(Operand(kind, short(v.dtype) if kind == "tensor" else own, own))
        scalars = tuple(_SCALARS[type(v)](v) for v in self.values[self.operands:])
        return Call(self.name, form, tuple(operands), self.compute, short(self.result.dtype), scalars, index, aligned)

    def launch(self, image, function, vector, form, out, address=flambeau.Tensor.data_ptr):
        """Runs the kernel into `out`, of the result's shape; `address` tells where a tensor's first element is."""
        tensors = [v.expand(out.shape) for v in self.values[:self.operands] if isinstance(v, flambeau.Tensor)]
        if form == "flat":
            assert all(t.is_contiguous() for t in tensors)
        params = [ctypes.c_void_p(address(t)) for t in (out, *tensors)]
        if form == "strided":
            params.append(geometry([out, *tensors]))
        params.append(ctypes.c_int64(out.numel()))
        for operand, v in zip(self.signature(form, 32, False).operands, self.values, strict=False):
            if operand.kind == "number":
                params.append(number(v, operand.loop_dtype))
        for v in self.values[self.operands:]:
            if type(v) in _PASSED:
                params.append(number(v, _PASSED[type(v)]))
        blocks = math.ceil(out.numel() / (vector * pointwise.THREADS))
        emulate.launch(image, function, (blocks, 1, 1), (pointwise.THREADS, 1, 1), params)
        return out


#: by the dtype a result is kept in: how far two ways to compute it may lie apart
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-11,
             "complex128": 1e-11}


def same(a, b):
    """Whether two results agree: exactly where they are whole, else relatively, NaN and infinities in their places."""
    if a is None or b is None:
        return a is b
    dtype = short(a.dtype)
    if dtype not in TOLERANCE:
        return bool((a == b).all())
    if a.is_complex():
        a, b = (flambeau.view_as_real(t.resolve_conj()) for t in (a, b))
    near = TOLERANCE[dtype]
    least = near if dtype in ("float16", "bfloat16") else near / 10  # sums that cancel leave roundings
    return flambeau.allclose(a.double(), b.double(), rtol=near, atol=least, equal_nan=True)


class Batch:
    """Many pointwise kernels in one image: a compiler's start costs more than a kernel."""

    def __init__(self):
        self.names, self.files, self.bodies = {}, [], []

    def add(self, signature):
        """(the kernel's name, elements per thread)."""
        if signature not in self.names:
            name = f"k{len(self.names)}"
            body, vector = pointwise.kernel(name, signature)
            self.names[signature] = name, vector
            self.bodies.append(body)
            self.files += [f for f in pointwise.files_of(signature.name) if f not in self.files]
        return self.names[signature]

    def source(self):
        order = sorted(self.files, key=("prelude.cuh", "functions.cuh", "complex.cuh", "special.cuh",
                                        "pointwise.cuh").index)
        return pointwise.text(*order) + "\n".join(self.bodies)

    def image(self, arch="emulate"):
        return compile(self.source(), arch, "a batch")
