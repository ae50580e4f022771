"""The arguments of a traced function: which are Proxies, which have the value that `concrete_args` says."""

import functools
import inspect
import itertools

import flambeau

from ..utils import _pytree
from ._pytree_codegen import _PyTreeCodeGen, _PyTreeInfo


class PHBase:
    """In concrete_args: here a Proxy is wanted."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A PH whose Node is told apart by `ph_key`, and takes what it knows (`transfer_to` copies its attributes)."""

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key


def _assert_is_none(value, msg):
    """AssertionError with this text unless value is None: what graphs traced with None check."""
    if value is not None:
        raise AssertionError(msg)


def _check_text(name, value):
    return f"{name} was {value!r} when this graph was traced, and has another value now; trace it again"


def _checked(tracer, name, value, proxy):
    """The graph checks that an argument is what it was traced with."""
    if isinstance(value, (bool, int, float, str)):
        tracer.create_proxy("call_function", flambeau._assert, (proxy == value, _check_text(name, value)), {})
    elif value is None:
        tracer.create_proxy("call_function", _assert_is_none, (proxy, _check_text(name, value)), {})


def _placeholder(tracer, name, parameters, function):
    """The Proxy for one argument, with its default and annotation."""
    parameter = parameters.get(name.lstrip("*"))
    default = ()
    if not name.startswith("*") and parameter is not None and parameter.default is not inspect.Parameter.empty:
        default = (parameter.default,)
    return tracer.create_proxy("placeholder", name, default, {},
                               type_expr=function.__annotations__.get(name) if hasattr(function, "__annotations__")
                               else None)


def arguments_of_root(tracer, root_fn, is_module, concrete_args):
    """(the function to run, its arguments): Proxies, or for `concrete_args` values, or trees of both."""
    function = inspect.unwrap(root_fn)
    if not hasattr(function, "__code__"):
        function = root_fn = _as_function(function)
    code = function.__code__
    names = list(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount])
    parameters = inspect.signature(function).parameters
    first = []
    if is_module:
        if not names:
            raise RuntimeError("tracing: forward takes `self` as one of *args, so a trace cannot tell it from the "
                               "arguments; write `def forward(self, …)`")
        first, names = [tracer.root], names[1:]
    if isinstance(concrete_args, tuple):
        if len(concrete_args) != len(names):
            raise RuntimeError(f"trace: concrete_args has {len(concrete_args)} values, and the function takes "
                               f"{len(names)} arguments")
        concrete_args = dict(zip(names, concrete_args, strict=True))
    counter = itertools.count(1)
    values = [_argument(tracer, name, concrete_args, parameters, function, counter) for name in names]
    if code.co_flags & inspect.CO_VARARGS or code.co_flags & inspect.CO_VARKEYWORDS:
        return _with_rest(tracer, root_fn, function, first, values, parameters, concrete_args)
    if concrete_args is not None and any(_is_tree(value) for value in concrete_args.values()):
        return _flattened(tracer, root_fn, first, names, values, is_module)
    return root_fn if not _keyword_only(code) else _by_name(root_fn, len(first), names, code), [*first, *values]


def _as_function(operator):
    """An operator as a Python function with its arguments."""
    parameters = [p for p in inspect.signature(operator).parameters.values() if p.name != "out"]
    names = [p.name for p in parameters]
    defaults = {f"_{p.name}": p.default for p in parameters if p.default is not p.empty}
    declared = [f"{n}=_{n}" if f"_{n}" in defaults else n for n in names]
    space = {"_operator": operator, **defaults}
    exec(f"def call({', '.join(declared)}):\n    return _operator({', '.join(f'{n}={n}' for n in names)})", space)
    return space["call"]


def _keyword_only(code):
    return code.co_kwonlyargcount > 0


def _by_name(function, offset, names, code):
    """The function taking its keyword-only arguments by place."""
    positional = code.co_argcount

    @functools.wraps(function)
    def call(*args):
        named = dict(zip(names[positional - offset:], args[positional:], strict=True))
        return function(*args[:positional], **named)

    return call


def _is_tree(value):
    return not isinstance(value, PHBase) and not _pytree.tree_structure(value).is_leaf()


def _argument(tracer, name, concrete_args, parameters, function, counter):
    if concrete_args is None or name not in concrete_args:
        return _placeholder(tracer, name, parameters, function)
    value = concrete_args[name]
    if isinstance(value, PHBase):
        proxy = _placeholder(tracer, name, parameters, function)
        return _with_meta(proxy, value)

    def leaf(x):
        inner = f"{name}_{next(counter)}"
        if isinstance(x, PHBase):
            return _with_meta(tracer.create_proxy("placeholder", inner, (), {}), x)
        default = () if parameters[name].default is inspect.Parameter.empty else (parameters[name].default,)
        proxy = tracer.create_proxy("placeholder", inner, default if not _is_tree(value) else (), {})
        _checked(tracer, name, x, proxy)
        return x

    return _pytree.tree_map(leaf, value)


def _with_meta(proxy, ph):
    if isinstance(ph, PHWithMeta):
        for key, value in vars(ph).items():
            if key == "ph_key":
                proxy.node.meta["ph_key"] = value
            else:
                setattr(proxy.node, key, value)
    return proxy


def _with_rest(tracer, root_fn, function, first, values, parameters, concrete_args):
    """A function with *args or **kwargs: a placeholder for each."""
    code = function.__code__
    if concrete_args is not None and any(map(_is_tree, concrete_args.values())):
        raise NotImplementedError("trace: concrete_args holds containers, and the function takes *args or **kwargs, "
                                  "which cannot be taken apart with them; name its arguments")
    rest = []
    at = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        rest.append("*" + code.co_varnames[at])
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest.append("**" + code.co_varnames[at])
    proxies = [_placeholder(tracer, name, parameters, function) for name in rest]
    patched = _taking_rest(root_fn, code)
    return patched, [*first, *values, *proxies]


def _taking_rest(function, code):
    """The function whose *args and **kwargs are two plain arguments."""
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    extra = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + extra
    plain = code.replace(co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=flags)
    inner = inspect.unwrap(function)
    made = type(inner)(plain, inner.__globals__, inner.__name__, None, inner.__closure__)
    made.__annotations__ = inner.__annotations__
    return made


def _flattened(tracer, root_fn, first, names, values, is_module):
    """The function of leaves; the graph's CodeGen takes the caller's trees apart."""
    leaves, in_spec = _pytree.tree_flatten(list(values))

    @functools.wraps(root_fn)
    def flat(*args):
        trees = _pytree.tree_unflatten(list(args[len(first):]), in_spec)
        result = root_fn(*args[:len(first)], *trees)
        found, out_spec = _pytree.tree_flatten(result)
        info = tracer.graph._codegen.pytree_info
        tracer.graph._codegen.pytree_info = info._replace(out_spec=out_spec)
        return found

    tracer.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo([*(["self"] if is_module else []), *names], in_spec, None)))
    return flat, [*first, *leaves]
