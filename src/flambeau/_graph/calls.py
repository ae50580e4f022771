"""A function whose calls are captured: what `compile` and `Module.compile` make."""

import functools
from importlib import import_module

from .. import _C
from .._absent import say_once
from .._shown import shown
from .errors import Unsupported
from .inside import Inside

#: backends under which functions run as they are
EAGER = ("eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner",
         "pre_dispatch_eager")
BACKENDS = ("inductor", "cudagraphs", *EAGER)
NAMED = {}  #: {name: function} of backends that the program has registered
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_RECORDING = ("reduce-overhead", "max-autotune")
_OPTIONS = ("fast_math", "pure", "triton.cudagraphs", "guard_filter_fn")  # there are no guards to filter
#: how compiled functions run, as set_stance() says
STANCE = ["default"]


def check(name, backend, mode, options):
    """Refuses what `compile` does not know."""
    if mode is not None and options is not None:
        raise RuntimeError(f"{name}: mode={shown(mode)} and options={shown(options)} exclude each other; pass one of "
                           "them")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"{name}: mode={shown(mode)} is not known; known are {', '.join(map(repr, _MODES))}")
    others = [shown(key) for key in options or () if key not in _OPTIONS]
    if others:
        say_once(f"{name}: the options {', '.join(others)} are those of another compiler and change nothing here")
    if isinstance(backend, str) and backend not in BACKENDS and backend not in NAMED:
        raise RuntimeError(f"{name}: the backend {shown(backend)} is not known; known are "
                           f"{', '.join(map(repr, (*BACKENDS, *NAMED)))}, and any function of a graph and its inputs")


def recorded(backend, mode, options):
    """The mode; of the backend "cudagraphs" that of recordings, where none is asked for."""
    return "reduce-overhead" if backend == "cudagraphs" and mode is None and options is None else mode


def promises(mode, options):
    """(whether other rounding is allowed, whether the function is pure: False, True or "check", whether devices record
    its programs) of mode and options."""
    options = options or {}
    pure = options.get("pure", False)
    if pure not in (False, True, "check"):
        raise RuntimeError(f"compile: the option 'pure' must be True, False or 'check', got {shown(pure)}")
    return bool(options.get("fast_math", False)), pure, mode in _RECORDING or bool(options.get("triton.cudagraphs"))


_PLANNING = {}  # what makes plans of a backend of one's own


def planned_by(module):
    """Names the module whose `planner_of(backend)` makes plans of a backend that is a function."""
    _PLANNING["module"] = module


def how_of(name, fullgraph, dynamic, backend, mode, options):
    """The Capture that these arguments of `compile` ask for; None where functions run as they are."""
    check(name, backend, mode, options if not callable(backend) else None)
    backend = NAMED.get(backend, backend) if isinstance(backend, str) else backend
    if backend in EAGER and not fullgraph:
        return None
    mode = recorded(backend, mode, options)
    planner = None
    if callable(backend):
        given = {"mode": mode} if mode not in (None, "default") else {"options": options} if options else {}
        planner = import_module(_PLANNING["module"]).planner_of(
            functools.partial(backend, **given) if given else backend)
    return Capture(fullgraph, planner, dynamic is False, *promises(mode, options))


#: inside, a function that must be one program
wholly = Inside("wholly")


class Capture:
    """How a function is called that is captured.

    `whole`: a value that is asked for before the end raises RuntimeError. `planner`: makes the plans, of a described
    program and its inputs; None: the compiler does. `exact`: each plan serves one set of sizes. `fast`: and of numbers,
    and may round differently. `pure`: a call that looks like an earlier one runs the program of that, and no Python;
    "check": it runs both and compares. `record`: CUDA devices record what a program does, and repeat it as a whole.
    """

    def __init__(self, whole=False, planner=None, exact=False, fast=False, pure=False, record=False):
        self.whole, self.planner, self.exact, self.fast, self.pure = whole, planner, exact, fast, pure
        self.record = record and planner is None
        self.calls = {}  # of pure functions: what is kept of their calls
        self.promised = whole, planner, exact, fast, self.record

    def __call__(self, fn, args, kwargs, module=None):
        """`module`: whose forward `fn` is, where it is no module itself."""
        if STANCE[0] == "force_eager":
            return fn(*args, **kwargs)
        if self.whole:
            return self._whole(fn, args, kwargs)
        if self.pure:
            key = fn, getattr(fn if module is None else module, "training", None)
            calls = self.calls.get(key) or self.calls.setdefault(key, _C.pure_calls())
            return _C.pure_call(calls, self.pure == "check", fn, args, kwargs, *self.promised)
        return _C.graph_call(fn, args, kwargs, *self.promised)


    def _whole(self, fn, args, kwargs):
        try:
            with wholly():
                return _C.graph_call(fn, args, kwargs, *self.promised)
        except RuntimeError as error:
            if type(error) is RuntimeError and str(error).startswith("compile: fullgraph=True"):
                raise Unsupported(str(error)) from None
            raise


def captured(fn, how):
    """`fn`, whose operators are written down while it runs and computed together when it ends."""
    @functools.wraps(fn, updated=())
    def compiled(*args, **kwargs):
        return how(fn, args, kwargs)

    compiled._torchdynamo_orig_callable = fn
    return compiled


class CapturedForward:
    """The forward of a module that is compiled in place; copies of the module have one of their own."""

    def __init__(self, module, how):
        self.module, self.how = module, how

    def __call__(self, *args, **kwargs):
        return self.how(type(self.module).forward, (self.module, *args), kwargs, self.module)

    @classmethod
    def put(cls, module, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, disable=False):
        """`Module.compile`."""
        how = None if disable else how_of("Module.compile", fullgraph, dynamic, backend, mode, options)
        module.__dict__.pop("forward", None)
        if how is not None:
            module.__dict__["forward"] = cls(module, how)
