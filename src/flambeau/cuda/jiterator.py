"""Functions in CUDA C++ as pointwise operators: compiled for the dtypes and the GPU of the first call."""

import importlib
import struct

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS
from ._plans import arch_of, loaded

_MOST = 8


def _custom():
    """The module that makes kernels of such functions, loaded by the first call."""
    return importlib.import_module("flambeau.cuda.kernels.custom")


class _JitFunction:
    """A function of tensors (by place, up to 8) and numbers (by name)."""

    def __init__(self, code, results, numbers):
        self.__name__, names = _custom().head_of(code)
        self._code, self._results, self._numbers = code, results, numbers
        tensors = names[:len(names) - (results if results > 1 else 0)]
        self._tensors = tensors[:len(tensors) - len(numbers)]
        if sorted(tensors[len(self._tensors):]) != sorted(numbers):
            raise ValueError(f"jiterator: {self.__name__} must end with the numbers that have defaults, "
                             f"{shown(', '.join(numbers))}, but its parameters are {', '.join(names)}")
        self._order = tensors[len(self._tensors):]

    def __call__(self, *tensors, **numbers):
        name = self.__name__
        if unknown := set(numbers) - set(self._numbers):
            raise TypeError(f"{name}: no number is called {', '.join(sorted(unknown))}; there are "
                            f"{', '.join(self._numbers) or 'none'}")
        if len(tensors) != len(self._tensors) or len(tensors) > _MOST:
            raise TypeError(f"{name}: expected {len(self._tensors)} tensors (at most {_MOST}), got {len(tensors)}")
        if not tensors or not all(isinstance(t, _C.Tensor) and t.is_cuda for t in tensors):
            raise RuntimeError(f"{name}: every operand must be a tensor on a CUDA device")
        if len(devices := {str(t.device) for t in tensors}) > 1:
            raise RuntimeError(f"{name}: the tensors are on several devices, {', '.join(sorted(devices))}")
        return self._launched([t.detach().resolve_conj().resolve_neg() for t in tensors], {**self._numbers, **numbers})

    def _launched(self, tensors, numbers):
        dtype = tensors[0].dtype
        for t in tensors[1:]:
            dtype = _C.promote_types(dtype, t.dtype)
        spread = OPS["broadcast_tensors"](*tensors)
        shape, device = tuple(spread[0].shape), spread[0].device
        results = [spread[0].new_empty(shape, dtype=dtype) for _ in range(self._results)]
        if results[0].numel():
            made, own = _custom(), str(dtype).rpartition(".")[2]
            image = made.custom(self._code, tuple(str(t.dtype).rpartition(".")[2] for t in spread), own, len(numbers),
                                self._results, max(len(shape), 1), arch_of(device.index))
            given = [x for t in spread for x in (t, made.layout_of(shape, t.stride()))]
            _C._cuda.launch(self.__name__, device.index, loaded(device.index, image, "kernel"), made.grid(shape),
                            (made.THREADS, 1, 1), 0, struct.pack("<q", results[0].numel()), *results, *given,
                            *(_bytes(numbers[name], dtype) for name in self._order))
        return results[0] if self._results == 1 else tuple(results)


def _bytes(value, dtype):
    """A number as the kernel takes it: two doubles for complex dtypes, else one."""
    if dtype.is_complex:
        return struct.pack("<dd", complex(value).real, complex(value).imag)
    return struct.pack("<d", value)


def _create_jit_fn(code_string, **kwargs):
    """A function of CUDA tensors by a text `template <typename T> T name(T x, T y, T alpha) { ... }`.

    T is the dtype that the tensors are promoted to; halves are computed in float. Tensors are broadcast. `kwargs` are
    the numbers behind them, with their defaults.
    """
    return _JitFunction(code_string, 1, kwargs)


def _create_multi_output_jit_fn(code_string, num_outputs, **kwargs):
    """The same with several results, the last parameters of the function: `T& first, T& second`."""
    return _JitFunction(code_string, num_outputs, kwargs)
