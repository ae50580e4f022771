"""Between native code and the kernels: hands over what a new call is, and takes back the plan that is then repeated.

Native code calls `pointwise` and `row` once per signature (native/bind/cuda_plans.cpp); the tuples are its form.
"""

import hashlib
import importlib
from functools import cache

from .. import _C
from ._calls import ElementwiseCall, Operand, RowCall, TensorInfo


def kernels():
    """The package that makes kernels; loaded by the first call that needs one."""
    return importlib.import_module("flambeau.cuda.kernels")


@cache
def arch_of(device):
    """What kernels for a device are compiled for: "sm_90"; "emulate" where a test's driver plays the device."""
    found = _C._cuda.properties(device)
    return "emulate" if found["name"].startswith("emulated") else f"sm_{found['major']}{found['minor']}"


def pointwise(device, name, form, operands, compute, loop_out, result, scalars, index, aligned, vector):
    """(digest, image, function, elements per thread or of a tile's side, threads per block)."""
    plan = kernels().lower(ElementwiseCall(name, form, tuple(Operand(*o) for o in operands), compute, loop_out, result,
                                           scalars, index, aligned, arch_of(device), vector))
    return _digest(plan.image), plan.image, plan.function, plan.vector, plan.threads


def row(device, name, args, results, libraries):
    """(bytes of each block of scratch memory, steps)."""
    plan = kernels().lower(RowCall(name, tuple(map(_argument, args)), tuple(map(_argument, results)), arch_of(device),
                                   libraries))
    return tuple(plan.scratch), tuple(_STEPS[type(step).__name__](name, step) for step in plan.steps)


def kernel(device, family, key):
    """(digest, image, function) of a kernel that no signature names."""
    image, function = kernels().named(family, key, arch_of(device))
    return _digest(image), image, function


def kept_by_layers(device, *layers):
    """How many bytes a library keeps of a recurrent layer for the way back."""
    return kernels().kept_by_layers(device, *layers)


@cache
def _digest(image):
    return hashlib.sha256(image).digest()


@cache
def loaded(device, image, function, shared=0):
    """The handle of a kernel for `_C._cuda.launch`; shared: how much shared memory it may be launched with."""
    return _C._cuda.load_kernel(device, _digest(image), image, function, shared)


def _argument(value):
    if isinstance(value, tuple) and value:
        if value[0] == "tensor":
            return TensorInfo(*value[1:])
        if value[0] == "tensors":
            return tuple(map(_argument, value[1]))
        if value[0] == "generator":
            return "generator"
    return value


def _place(p):
    """A parameter of a launch, or an address."""
    kind = type(p).__name__
    if kind == "Number":
        return "number", bytes(p.data)
    return ("seed", p.count) if kind == "Seed" else (kind.lower(), p[0], p.byte_offset)


def _launch(_, step):
    return ("launch", _digest(step.image), step.image, step.function, tuple(step.grid), tuple(step.block), step.shared,
            tuple(map(_place, step.params)))


_STEPS = {
    "Launch": _launch,
    "Fill": lambda _, step: ("fill", _place(step.target), step.value_byte, step.nbytes),
    "Copy": lambda _, step: ("copy", _place(step.dst), _place(step.src), step.nbytes),
    "Check": lambda _, step: ("check", _place(step.place), step.count, step.api, step.batched),
    "Library": lambda _, step: ("library", step.function, step.path, tuple(map(_place, step.operands)),
                                step.constants),
}
