"""Which of NVIDIA's libraries a call can use, and calls of them as steps of its plan (native/cuda/libraries)."""

from functools import cache

from ..._libraries import nvidia_library
from ...backends import _switches
from .launches import refuse
from .plans import Library, Number

#: whose functions a library opens by name itself, so that they must be there first
_BEFORE = {"cudnn": ("cublaslt",), "cusolver": ("cublaslt", "cublas")}
_TITLES = {"cufft": ("cuFFT", "nvidia-cufft-cu12"), "cusolver": ("cuSOLVER", "nvidia-cusolver-cu12"),
           "cublas": ("cuBLAS", "nvidia-cublas-cu12"), "cudnn": ("cuDNN", "nvidia-cudnn-cu12")}
NULL = Number(bytes(8))


@cache
def path_of(name):
    """Where the library is, or None; found once."""
    if any(nvidia_library(other) is None for other in _BEFORE.get(name, ())):
        return None
    return nvidia_library(name)


def present(call, name):
    """Whether a rule may use the library for this call."""
    return call.libraries > 0 and path_of(name) is not None


def on_the_way(call):
    """Whether a library may be asked for more than one call: products and what follows them."""
    return call.libraries > 1


def refuse_without(call, name):
    """NotImplementedError of an operator that only the library computes."""
    title, package = _TITLES[name]
    refuse(call, f"without {title} (pip install {package}, part of flambeau[cuda])")


def deterministic():
    """Whether only algorithms may be used that give the same numbers in every run."""
    return _switches.get("deterministic") or _switches.get("only_deterministic")


def run(build, function, operands, **constants):
    """Adds the call of `function` ("cublaslt.matmul"); operands are parameters, infos of tensors, or None."""
    library = function.partition(".")[0]
    values = tuple(NULL if o is None else getattr(o, "value", o) for o in operands)
    build.steps.append(Library(function, path_of(library), values, constants))
