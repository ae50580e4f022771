"""`compile`: operators of a function are written down while it runs, and computed together when it ends."""

import functools

from .. import _C
from .._absent import refusal
from .._graph import BACKENDS, EAGER, NAMED, STANCE, Capture, captured, check
from .._graph.calls import how_of, wholly
from .._graph.errors import Unsupported
from .._graph.exporting import is_exporting as is_exporting
from .._graph.inside import AS_IT_IS
from .._shown import shown
from ..nn import Module
from ._backends import TAGS
from ._backends import lookup_backend as lookup_backend
from ._backends import register_backend as register_backend
from ._explain import explain as explain
from ._logs import set_logs as set_logs
from ._marks import CacheInfo as CacheInfo
from ._marks import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from ._marks import cudagraph_mark_warmup_incomplete as cudagraph_mark_warmup_incomplete
from ._marks import keep_portable_guards_unsafe as keep_portable_guards_unsafe
from ._marks import keep_tensor_guards_unsafe as keep_tensor_guards_unsafe
from ._marks import load_cache_artifacts as load_cache_artifacts
from ._marks import nested_compile_region as nested_compile_region
from ._marks import nonstrict_trace as nonstrict_trace
from ._marks import save_cache_artifacts as save_cache_artifacts
from ._marks import set_enable_guard_collectives as set_enable_guard_collectives
from ._marks import skip_all_guards_unsafe as skip_all_guards_unsafe
from ._marks import skip_guard_on_all_nn_modules_unsafe as skip_guard_on_all_nn_modules_unsafe
from ._marks import skip_guard_on_globals_unsafe as skip_guard_on_globals_unsafe
from ._marks import skip_guard_on_inbuilt_nn_modules_unsafe as skip_guard_on_inbuilt_nn_modules_unsafe
from ._marks import substitute_in_graph as substitute_in_graph
from ._marks import wrap_numpy as wrap_numpy
from ._picture import picture as picture
from ._report import report as report

_default = [None]
_LOOKS = {"report": report, "picture": picture}


def _plain(fn, args, kwargs):
    return fn(*args, **kwargs)


def _eager(fn, args, kwargs):
    """The call as it is, in which is_compiling() is true: what a program does by that it does on every backend."""
    if STANCE[0] == "force_eager":
        return fn(*args, **kwargs)
    before = AS_IT_IS.set(True)
    try:
        return fn(*args, **kwargs)
    finally:
        AS_IT_IS.reset(before)


def _paused(fn, args, kwargs):
    """The call of a function that is not compiled, inside one that is."""
    before = AS_IT_IS.set(False)
    try:
        return _C.graph_pause(fn, args, kwargs)
    finally:
        AS_IT_IS.reset(before)


class OptimizedModule(Module):
    """What `compile` makes of a module: the module itself is `_orig_mod`, and its calls are captured.

    Attributes that it has not are the module's; report(*args) and picture(*args) are those of `compiler`, unless the
    module has its own. Names in state_dict() begin with "_orig_mod.".
    """

    def __init__(self, module, how=Capture()):
        super().__init__()
        self.__dict__["_how"] = how
        self._orig_mod = module
        self.training = module.training

    def forward(self, *args, **kwargs):
        """Calls the module."""
        return self._how(self._orig_mod, args, kwargs)

    def __getattr__(self, name):
        if name == "_orig_mod":
            return super().__getattr__(name)
        try:
            return getattr(self._orig_mod, name)
        except AttributeError:
            if name in _LOOKS:
                return functools.partial(_LOOKS[name], self)
            raise

    def __setattr__(self, name, value):
        if name in ("_orig_mod", "training") or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        if name in self.__dict__ or name == "_orig_mod":
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None,
            disable=False, recompile_limit=None, isolate_recompiles=False, shapes_spec=None, dynamic_shapes=None):
    """A function or module whose operators run together: fused, without results that nobody needs.

    Each call runs its Python. Operators leave a record with the shapes and dtypes of their results; when the function
    ends, or somebody asks for a value (`item()`, `bool()`, printing, …), the record is looked up, and a plan for it
    runs that is made once. So any Python works, results are those of eager execution, and nothing is ever stale. A
    backward pass inside the function is part of the record. docs/graph.md follows a function from Python to its plan.

    Args:
        model: a function, a Module (the result is an OptimizedModule), or None (the result is a decorator).
        fullgraph: raise RuntimeError at the line that asks for a value before the function has ended.
        dynamic: False: each set of sizes has a plan of its own. None, True: calls whose sizes are equal to each other
            in the same places share one, so that ten batch sizes need one plan, and a batch of 1 another.
        backend: None or "inductor": what is described here; "cudagraphs": with what mode="reduce-overhead" does.
            "eager", "aot_eager" and their kin: the function runs as it is, unless fullgraph asks whether it is one
            program. A function of an fx.GraphModule and the list
            of its inputs, or the name that it was registered by: it returns what runs instead, a function of the inputs
            that returns the graph's results; numbers in the graph are constants there.
        mode: "reduce-overhead", "max-autotune": on CUDA tensors, what the function does is recorded as a CUDA graph
            when it comes for the second time, for each set of shapes and numbers, and launched as a whole from then
            on. On other tensors, and with "default" and "max-autotune-no-cudagraphs", nothing is recorded.
        options: {"fast_math": True}: what is written out (softmax, layer norm, RMS norm, gelu, silu, their kin) becomes
            the operator that it is, where no gradient needs its parts: faster, rounded differently. Each set of numbers
            and sizes has a plan then.
            {"pure": True}: the function does nothing but compute tensors from its arguments, and from others that stay
            in their place, as parameters do. Calls whose arguments look like those of an earlier call, apart from
            values, then run no Python. Results that require gradients, or were not made in the call, are computed
            as without. "check": Python runs each time, and RuntimeError tells when it does something else.
            {"triton.cudagraphs": True}: what mode="reduce-overhead" does, beside other options.
            Others are those of another compiler; a warning says once that they change
            nothing.
        name, recompile_limit, isolate_recompiles, shapes_spec, dynamic_shapes: there is nothing to name, limit or
            isolate, and all sizes may change.
        disable: the function runs as it is.

    Raises:
        RuntimeError: a backend or mode that is not known, or mode and options together.

    >>> import flambeau
    >>> double = flambeau.compile(lambda x: (x * 2).relu() + 1)
    >>> double(flambeau.tensor([-1.0, 2.0]))
    tensor([1., 5.])
    """
    check("compile", backend, mode, options if not callable(backend) else None)
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or a Module, got {type(model).__name__}")
    backend = _default[0] if backend is None else backend
    how = _plain if disable else how_of("compile", fullgraph, dynamic, backend, mode, options) or _eager
    if isinstance(model, Module):
        return OptimizedModule(model, how)
    return model if disable else _with_looks(captured(model, how))


def _with_looks(compiled):
    for name, look in _LOOKS.items():
        setattr(compiled, name, functools.partial(look, compiled))
    return compiled


def list_backends(exclude_tags=("debug", "experimental")):
    """The backends `compile` takes by name.

    >>> import flambeau
    >>> flambeau.compiler.list_backends()
    ['cudagraphs', 'inductor']
    """
    left_out = set(exclude_tags or ())
    own = [name for name in NAMED if not left_out & TAGS.get(name, frozenset())]
    return sorted([*own, *(name for name in BACKENDS if name not in EAGER or "debug" not in left_out)])


def get_default_backend():
    """The backend of `compile` calls that name none; None: what compile() describes."""
    return _default[0]


def set_default_backend(backend):
    """Sets it: "eager" lets programs that compile run as they are."""
    if backend is not None:
        check("set_default_backend", backend, None, None)
    _default[0] = backend


def is_compiling():
    """Whether operators are being written down: inside a function that was compiled, or a program that is exported.

    >>> import flambeau
    >>> flambeau.compile(lambda: flambeau.compiler.is_compiling())(), flambeau.compiler.is_compiling()
    (True, False)
    """
    return _C.graph_capturing() or AS_IT_IS.get() or is_exporting()


is_dynamo_compiling = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """A function that runs as it is wherever it is called: what came before it inside a compiled function runs first.

    With recursive=False nothing changes: only its own lines would run as they are, and lines compute nothing; the
    operators they call do. `reason` is for readers of the program.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not recursive:
        return fn
    if isinstance(fn, Module):
        return OptimizedModule(fn, _paused)

    @functools.wraps(fn, updated=())
    def plain(*args, **kwargs):
        return _paused(fn, args, kwargs)

    plain._torchdynamo_orig_callable = fn
    return plain


def graph_break(msg=""):
    """Ends the program that is being written down, which runs; the function goes on in another one.

    Unsupported, with `msg`, in a function that is compiled with fullgraph=True.
    """
    if wholly:
        raise Unsupported(f"graph_break: the function is compiled with fullgraph=True{msg and ': '}{msg}")
    _C.graph_break()


def allow_in_graph(fn):
    """Lets a compiler call the function without looking inside: nothing looks inside, so it is returned as it is."""
    return fn


def assume_constant_result(fn):
    """Lets a compiler take the function's result as constant: it is always called, so it is returned as it is."""
    return fn


def reset():
    """Forgets every plan, each of which is made again when its program is met again, and weights that were packed for
    convolutions."""
    _C.graph_forget()


#: what a program asks for -> how its functions run
_STANCES = {"default": "default", "force_eager": "force_eager", "eager_then_compile": "default",
            "aot_eager_then_compile": "default"}


class set_stance:
    """How compiled functions run from now on, or in a `with` block, or in calls of a function that it decorates.

    "default": captured, and so are "eager_then_compile" and "aot_eager_then_compile", from the first call on, since a
    plan is made in milliseconds. "force_eager": as they are. "fail_on_recompile" and "eager_on_recompile" raise
    NotImplementedError: whether a program is known shows only when it ends. force_backend: "inductor" and "eager" say
    the same as "default" and "force_eager".

    >>> import flambeau
    >>> with flambeau.compiler.set_stance("force_eager"):
    ...     flambeau.compile(lambda: flambeau.compiler.is_compiling())()
    False
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in _STANCES:
            raise NotImplementedError(f"set_stance: {shown(stance)} is not available; {', '.join(_STANCES)} are")
        if force_backend is not None and stance != "default":
            raise RuntimeError(f"set_stance: force_backend={shown(force_backend)} goes with the stance 'default' only")
        if force_backend not in (None, *BACKENDS):
            raise NotImplementedError("set_stance: a force_backend of one's own is not available; name the backend in "
                                      "compile()")
        self.stance = "force_eager" if force_backend in EAGER else _STANCES[stance]
        self.before = STANCE[0]
        STANCE[0] = self.stance

    def __enter__(self):
        STANCE[0] = self.stance

    def __exit__(self, *exception):
        STANCE[0] = self.before

    def __call__(self, fn):
        STANCE[0] = self.before

        @functools.wraps(fn)
        def run(*args, **kwargs):
            with set_stance(self.stance):
                return fn(*args, **kwargs)
        return run


class PrecompileError(RuntimeError):
    """A compiled function could not be prepared: never raised, since nothing is prepared beforehand."""


load_compiled_function = refusal(
    "compiler.load_compiled_function(file, f_globals, external_data)",
    "compiled functions are not written to files; export.save writes programs, and export.load reads them")
