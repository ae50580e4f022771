"""`compile` and its helpers: until graphs are captured, functions run as they are."""

import functools

from ._absent import refusal, say_once
from ._shown import shown

_default = [None]
_AS_IT_IS = ("compile: nothing is compiled yet; the function runs as it is, with the same results. backend='eager' "
             "says the same without this warning")


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None,
            disable=False, recompile_limit=None, isolate_recompiles=False, shapes_spec=None):
    """The function or module itself: graphs are not captured yet. A warning says so once, unless backend="eager".

    A backend of one's own (a function of a graph and its inputs) raises NotImplementedError.

    >>> import flambeau
    >>> double = flambeau.compile(lambda x: x * 2, backend="eager")
    >>> double(flambeau.ones(1))
    tensor([2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(f"compile: mode={shown(mode)} and options={shown(options)} exclude each other; pass one of "
                           "them")
    backend = _default[0] if backend is None else backend
    if callable(backend) and not disable:
        raise NotImplementedError(f"compile: the backend {shown(backend)} would be given a graph, and there are none "
                                  "yet; leave backend= out to run the function as it is")
    if model is None:
        return functools.partial(compile, backend=backend, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or a Module, got {type(model).__name__}")
    if backend != "eager" and not disable:
        say_once(_AS_IT_IS)
    return model


def list_backends(exclude_tags=("debug", "experimental")):
    """The backends `compile` takes.

    >>> import flambeau
    >>> flambeau.compiler.list_backends()
    ['eager']
    """
    return ["eager"]


def get_default_backend():
    """The backend of `compile` calls that name none; None runs functions as they are and says so once."""
    return _default[0]


def set_default_backend(backend):
    """Sets it: "eager" lets programs that compile run as they are."""
    if backend not in (None, "eager"):
        raise NotImplementedError(f"set_default_backend: {shown(backend)} is not available; 'eager' is")
    _default[0] = backend


def is_compiling():
    """Whether a compiler looks at the program instead of running it: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """Keeps a function from being compiled: it never is, so it is returned as it is."""
    return disable if fn is None else fn


def allow_in_graph(fn):
    """Lets a compiler call the function without looking inside: it is returned as it is."""
    return fn


def assume_constant_result(fn):
    """Lets a compiler take the function's result as constant: it is returned as it is, and always called."""
    return fn


def reset():
    """Forgets what was compiled: nothing was."""


def cudagraph_mark_step_begin():
    """Begins a step of recorded CUDA work: there is none."""


def set_stance(stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
    """Not available: nothing is compiled, so there is no stance to take but "force_eager"."""
    if stance not in ("default", "force_eager"):
        raise NotImplementedError(f"set_stance: {shown(stance)} is not available: functions run as they are")
    return functools.partial(lambda fn: fn)


class PrecompileError(RuntimeError):
    """A compiled function could not be prepared: never raised, since none is."""


_NAMES = ("substitute_in_graph", "save_cache_artifacts", "load_cache_artifacts", "load_compiled_function",
          "nonstrict_trace",
          "nested_compile_region", "set_enable_guard_collectives", "wrap_numpy", "cudagraph_mark_warmup_incomplete",
          "skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_all_nn_modules_unsafe", "skip_all_guards_unsafe",
          "skip_guard_on_globals_unsafe", "keep_tensor_guards_unsafe", "keep_portable_guards_unsafe")
globals().update({name: refusal(f"compiler.{name}", "nothing is compiled here; leave it out") for name in _NAMES})
