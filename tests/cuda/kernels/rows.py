"""Calls of operators that are not pointwise, lowered to plans that run on the CPU."""

import ctypes

import flambeau
from flambeau._tensor.dispatched import of_primitives
from flambeau.cuda._calls import RowCall, TensorInfo
from flambeau.cuda.kernels import lower
from flambeau.cuda.kernels.plans import Copy, Fill, Launch, Number, Plan, Pointer, Seed
from flambeau.ops.kinds import FACTS, OPS
from flambeau.utils._python_dispatch import TorchDispatchMode

from .. import emulate
from . import fences
from .harness import short

SEED = 1234


def arguments(name, args, kwargs):
    """The schema's arguments in order, defaults included."""
    bound = OPS[name].__signature__.bind(*args, **kwargs)
    bound.apply_defaults()
    more = bound.arguments.pop("sizes", ())  # flip(x, 0, 1) as flip(x, (0, 1))
    for key in ("size", "dims"):
        if isinstance(bound.arguments.get(key), int) and (key == "size" or name == "flip"):
            bound.arguments[key] = (bound.arguments[key], *more)
    return [v for k, v in bound.arguments.items() if k != "out" or "Tensor out," in FACTS[name][1]]


class Lowered:
    """One call: `results` are tensors of the CPU's own results' shapes, which `run` fills by the plan."""

    def __init__(self, name, args=(), kwargs=None, results=None, aligned=True, arch="emulate", libraries=False):
        self.tensors, self.aligned = [], aligned
        values = arguments(name, args, kwargs or {})
        infos = tuple(self._info(v) for v in values)
        expected = OPS[name](*args, **(kwargs or {})) if results is None else results
        self.expected = [expected] if isinstance(expected, flambeau.Tensor) else list(expected)
        self.results = [None if t is None else flambeau.empty_like(t) for t in self.expected]
        for r in self.results:
            if r is not None:  # what a plan does not write is noticed
                ctypes.memset(r.data_ptr(), 0xff, r.untyped_storage().nbytes())
        if name.endswith("_"):
            self.results = [self.tensors[0]]
        self.call = RowCall(name, infos, tuple(self._info(r) for r in self.results), arch, libraries)
        self.plan = lower(self.call)
        assert isinstance(self.plan, Plan)

    def _info(self, v):
        if isinstance(v, flambeau.Tensor):
            self.tensors.append(v)
            return TensorInfo(len(self.tensors) - 1, short(v.dtype), tuple(v.shape), tuple(v.stride()),
                              self.aligned and v.data_ptr() % 16 == 0)
        if isinstance(v, (list, tuple)):
            return tuple(self._info(x) for x in v)
        if isinstance(v, flambeau.dtype):
            return short(v)
        return v

    def _address(self, target, scratch):
        if isinstance(target, Pointer):
            return self.addresses[target.k] + target.byte_offset
        return scratch[target.i] + target.byte_offset

    def _parameter(self, p, scratch, offset):
        if isinstance(p, Number):
            return (ctypes.c_char * max(len(p.data), 1)).from_buffer_copy(p.data)
        if isinstance(p, Seed):
            return (ctypes.c_uint64 * 3)(SEED, offset, 0)
        return ctypes.c_void_p(self._address(p, scratch))

    def run(self):
        """The results by the plan."""
        self.addresses = [t.data_ptr() for t in self.tensors]
        memory = [(ctypes.c_char * max(n, 1))() for n in self.plan.scratch]
        self._steps([ctypes.addressof(m) for m in memory])
        return self.results

    def run_fenced(self, at_end):
        """The same with nothing behind the memory of each tensor, or nothing before it: a step outside faults."""
        with fences.Fences(at_end) as fenced:
            self.addresses = [fenced.tensor(t) for t in self.tensors]
            self._steps([fenced.room(n) for n in self.plan.scratch])
        return self.results

    def _steps(self, scratch):
        offset = 0
        for step in self.plan.steps:
            if isinstance(step, Fill):
                ctypes.memset(self._address(step.target, scratch), step.value_byte, step.nbytes)
            elif isinstance(step, Copy):
                ctypes.memmove(self._address(step.dst, scratch), self._address(step.src, scratch), step.nbytes)
            else:
                assert isinstance(step, Launch)
                params = [self._parameter(p, scratch, offset) for p in step.params]
                emulate.launch(step.image, step.function, step.grid, step.block, params)
                offset += sum(p.count for p in step.params if isinstance(p, Seed))


class Capture(TorchDispatchMode):
    """Collects the calls of operators, as they reach a device, with what the CPU answers."""

    def __init__(self, wanted):
        super().__init__()
        self.wanted, self.calls, self.seen = wanted, [], {}

    @of_primitives
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.name not in self.wanted or "out" in kwargs:
            return func(*args, **kwargs)
        args = copied(args)
        before = copied(args)
        result = func(*args, **kwargs)
        self.calls.append((func.name, before, kwargs, args, result))
        return result


def copied(args):
    """The arguments with tensors of their own, strides kept."""
    def copy(v):
        if isinstance(v, flambeau.Tensor):
            return flambeau.empty_strided(v.shape, v.stride(), dtype=v.dtype).copy_(v.detach()) \
                if 0 not in v.stride() else v.detach()
        if isinstance(v, (list, tuple)):
            return type(v)(copy(x) for x in v) if type(v) in (list, tuple) else v
        return v
    return tuple(copy(v) for v in args)
