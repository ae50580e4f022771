"""How exact NVIDIA's libraries must be and which algorithms they may choose: bits that native code makes part of every
launch plan's key, so that a changed switch counts from the next call on. Also how the CPU may split float32 for its
matrix instructions.
"""

import types
from contextlib import contextmanager

from .. import _C
from .._libraries import SWITCHES as _SWITCHES
from .._shown import shown

_PRECISIONS = ("none", "ieee", "tf32")
_CPU_PRECISIONS = (*_PRECISIONS, "bf16")
#: how many bfloat16 numbers stand for a float32 in large products on the CPU; 0: it is multiplied as it is
_PARTS = {"ieee": 0, "bf16": 1, "tf32": 2, "none": 3}
#: whose precision counts where one's own is "none"
_ABOVE = {"matmul": "all", "cudnn": "all", "conv": "cudnn", "rnn": "cudnn", "cpu": "all"}
_precision = {"all": "none", "cpu": "none", "matmul": "none", "cudnn": "none", "conv": "tf32", "rnn": "tf32"}


def get(name):
    """Whether a switch is on."""
    bit, on = _SWITCHES[name]
    return bool(_C._cuda.library_switches() & bit) != on


def put(name, on):
    """Turns a switch on or off."""
    bit, default = _SWITCHES[name]
    bits = _C._cuda.library_switches()
    _C._cuda.set_library_switches(bits | bit if bool(on) != default else bits & ~bit)


def precision(name):
    """The precision of float32 numbers in "matmul", "conv" or "rnn", "cudnn" or "all": its own, or that above it."""
    own = _precision[name]
    return precision(_ABOVE[name]) if own == "none" and name in _ABOVE else own


def set_precision(name, value):
    """Sets it. RuntimeError for what is none of "none", "ieee" and "tf32" ("bf16" too for "cpu")."""
    known = _CPU_PRECISIONS if name == "cpu" else _PRECISIONS
    if value not in known:
        raise RuntimeError(f"fp32_precision: expected one of {known}, got {shown(value)}")
    _precision[name] = value
    if name == "cudnn":
        _precision["conv"] = _precision["rnn"] = value
    _follow()


def precisions():
    """All of them, for `restore_precisions`."""
    return dict(_precision)


def restore_precisions(before):
    """Puts back what `precisions` gave."""
    _precision.update(before)
    _follow()


@contextmanager
def restored(module, names):
    """Context at whose end these attributes of a module, and all precisions, are what they were."""
    before, kept = {name: getattr(module, name) for name in names}, precisions()
    try:
        yield
    finally:
        with thawed():
            for name, value in before.items():
                setattr(module, name, value)
        restore_precisions(kept)


def _follow():
    for part in ("matmul", "conv", "rnn"):
        put(f"{part}_tf32", precision(part) == "tf32")
    _C.set_float_parts(_PARTS[precision("cpu")])


class Precision:
    """What has a precision and nothing else: `backends.cudnn.conv`, `backends.cudnn.rnn`, `backends.mkldnn.matmul`."""

    def __init__(self, name):
        self._name = name

    @property
    def fp32_precision(self):
        """ "ieee", "tf32", or "none" for that of what stands above."""
        return precision(self._name)

    @fp32_precision.setter
    def fp32_precision(self, value):
        set_precision(self._name, value)


class Products(Precision):
    """Switches of matrix products on CUDA devices."""

    @property
    def allow_tf32(self):
        """Whether float32 products may be computed in TF32 (10 bits of fraction), which is several times faster."""
        return get("matmul_tf32")

    @allow_tf32.setter
    def allow_tf32(self, value):
        set_precision("matmul", "tf32" if value else "ieee")

    def __setattr__(self, name, value):
        if name != "_name" and not hasattr(type(self), name):
            raise AttributeError(f"backends.cuda.matmul has no switch {name}")
        super().__setattr__(name, value)


def switch(name, doc):
    """A switch as a property."""
    return property(lambda self: get(name), lambda self, on: put(name, on), doc=doc)


#: what only a context may change once programs have said so (`disable_global_flags`)
_FROZEN = {"enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision",
           "depthwise_kernel"}
_frozen = False


def freeze():
    """From now on modules' switches are changed by their `flags()` alone."""
    global _frozen
    _frozen = True


def frozen():
    """Whether `freeze` was called, and no `thawed` context is open."""
    return _frozen


@contextmanager
def thawed():
    """Context in which switches can be set all the same."""
    global _frozen
    before, _frozen = _frozen, False
    try:
        yield
    finally:
        _frozen = before


class Module(types.ModuleType):
    """A module whose switches are properties; `dir` names them too. They can be frozen."""

    def __setattr__(self, name, value):
        if _frozen and name in _FROZEN:
            short = self.__name__.partition(".")[2]
            raise RuntimeError(f"{short}.{name}: disable_global_flags() was called, so that switches are set for a "
                               f"while only; use `with {short}.flags({name}={shown(value)}):`")
        super().__setattr__(name, value)

    def __dir__(self):
        return [*super().__dir__(), *(name for name, v in vars(type(self)).items() if isinstance(v, property))]


Products.allow_fp16_reduced_precision_reduction = switch(
    "float16_reduced", "Whether partial sums of float16 products may be kept in float16.")
Products.allow_bf16_reduced_precision_reduction = switch(
    "bfloat16_reduced", "Whether partial sums of bfloat16 products may be kept in bfloat16.")
Products.allow_fp16_accumulation = switch(
    "float16_accumulation", "Whether float16 products may be summed in float16.")
