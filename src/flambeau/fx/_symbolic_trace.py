"""Tracer: runs a Python function with Proxies in the place of its arguments, so that what it does becomes a graph.

While a trace runs, calls of modules go to the Tracer, and functions that take no Proxies by themselves (`wrap`, Python
functions of `nn.functional`, those of `math`) are replaced in the namespaces that the traced functions read.
"""

import functools
import inspect
import math
import sys
import types
from collections import OrderedDict, defaultdict

import flambeau

from .. import _C
from .._absent import refused_class
from .._places import is_ours
from .._shown import class_name, shown
from ..nn import Module, Parameter
from ..nn import functional as _functional
from ._compatibility import compatibility as compatibility
from ._concrete import PH as PH
from ._concrete import PHBase as PHBase
from ._concrete import PHWithMeta as PHWithMeta
from ._concrete import _assert_is_none as _assert_is_none
from ._concrete import arguments_of_root
from ._patcher import Patcher
from .graph import Graph
from .graph_module import GraphModule
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase, _proxies, record_call

_wrapped = {}          # (id of globals, name) -> globals: functions that `wrap` names
_active = []           # the Tracers that are running, innermost last
_MODULE_GETATTR = Module.__getattribute__


def is_fx_tracing():
    """Whether a trace is running."""
    return bool(_active)


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes whose construction with Proxies is one Node, instead of running `__init__`."""

    def __call__(cls, *args, **kwargs):
        found = next(iter(_proxies((args, kwargs))), None)
        if found is None:
            return super().__call__(*args, **kwargs)
        return found.tracer.create_proxy("call_function", cls, args, kwargs)


class Tracer(TracerBase):
    """Makes a `Graph` of a function or Module. Subclasses decide what stays whole (`is_leaf_module`) and what values
    become (`create_arg`, `to_bool`, `iter`).

    autowrap_modules       modules whose functions are recorded as calls when they meet Proxies: `math`
    autowrap_functions     further such functions
    param_shapes_constant  the program may ask for shapes of parameters, and gets them

    >>> import flambeau
    >>> class Whole(flambeau.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return True
    >>> net = flambeau.nn.Sequential(flambeau.nn.Sequential(flambeau.nn.ReLU()))
    >>> [node.name for node in Whole().trace(net).nodes]
    ['input_1', '_0', 'output']
    """

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        self._autowrap_function_ids = {id(f) for module in autowrap_modules for f in vars(module).values()
                                       if callable(f) and not getattr(f, "__name__", "_").startswith("_")}
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls = defaultdict(int)
        self.node_name_to_scope = {}
        self._patcher = None
        self.tensor_attrs, self._kept = {}, []

    # ---- what subclasses decide ------------------------------------------------------------------------------------

    def is_leaf_module(self, m, module_qualified_name):
        """Whether the call of a submodule is one Node: modules of the library, except Sequential."""
        module = type(m).__module__
        return (is_ours(module) and module.partition(".")[2].startswith(("nn", "ao.nn", "quantization"))
                and not isinstance(m, flambeau.nn.Sequential) and not isinstance(m, GraphModule))

    def call_module(self, m, forward, args, kwargs):
        """The call of a submodule: one Node for leaves, else what forward(*args, **kwargs) does."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            key = path if path not in self.module_stack else f"{path}@{self.num_calls[path]}"
            self.num_calls[path] += 1
            self.module_stack[key] = (scope.module_path, scope.module_type)
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def path_of_module(self, mod):
        """The dotted name of a submodule; NameError where the root does not hold it."""
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError(f"tracing: the called {class_name(type(mod))} is no submodule of "
                        f"{class_name(type(self.root))}; assign it to an attribute in __init__")

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What reading a parameter or buffer of a module gives: a Proxy for a parameter of the root, and for a buffer
        where `proxy_buffer_attributes` asks; anything else is itself."""
        if isinstance(attr_val, Parameter):
            found = self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache,
                                   attr if self.param_shapes_constant else None)
        elif self.proxy_buffer_attributes and isinstance(attr_val, _C.Tensor):
            found = self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache, None)
        else:
            found = None
        return attr_val if found is None else found

    def _proxy_of(self, value, named, cache, attr):
        for name, tensor in named:
            if tensor is value:
                if name not in cache:
                    more = {}
                    # subclasses may override create_proxy without this parameter, and then get plain Proxies
                    if attr is not None and "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                        more["proxy_factory_fn"] = lambda node, name=name: ParameterProxy(self, node, name, value)
                    cache[name] = self.create_proxy("get_attr", name, (), {}, **more)
                return cache[name]
        return None

    def create_arg(self, a):
        """A value as an argument of a Node: parameters, buffers, submodules and other tensors become attributes."""
        if isinstance(a, Parameter):
            return self._attribute(a, self.root.named_parameters(), "parameter")
        if isinstance(a, _C.Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a)
        if isinstance(a, Module):
            return self._attribute(a, self.root.named_modules(), "module")
        if isinstance(a, tuple) and type(a) is not _C.Size and not hasattr(a, "_fields") and type(a) is not tuple:
            return self._constant(a)
        if type(type(a)) is ProxyableClassMeta:
            return self._constant(a)
        if isinstance(a, types.FunctionType | types.BuiltinFunctionType):
            return a
        return super().create_arg(a)

    def _attribute(self, value, named, what):
        for name, found in named:
            if found is value:
                return self.create_node("get_attr", name, (), {})
        if what == "parameter":
            raise NameError("tracing: a parameter is used that is none of the traced module; assign it to an attribute "
                            "of it")
        return self._constant(value, "_module_constant")

    def _constant(self, value, prefix=None):
        """The attribute of the root that holds a value met in the program."""
        key = _key(value)
        name = self.tensor_attrs.get(key)
        if name is None:
            prefix = prefix or ("_tensor_constant" if isinstance(value, _C.Tensor) else
                                f"_{class_name(type(value)).lower()}_constant_")
            name = self.get_fresh_qualname(prefix)
            self.tensor_attrs[key] = name
            self._kept.append(value)
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    def functions_as_graphs(self, args):
        """Functions among the arguments of a control flow operator become submodules of the root, with graphs."""
        return tuple(self._graph_of(arg) if isinstance(arg, types.FunctionType) else arg for arg in args)

    def _graph_of(self, function):
        tracer = type(self)()
        graph = tracer.trace(function)
        module = GraphModule(tracer.root, graph, "body")
        name = self.get_fresh_qualname("body_graph_")
        setattr(self.root, name, module)
        if self.submodule_paths is not None:
            self.submodule_paths[module] = name
        return module

    def get_fresh_qualname(self, prefix):
        """prefix0, prefix1 …: the first that the root has no attribute of."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # ---- the trace -------------------------------------------------------------------------------------------------

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """(the function to run, its arguments as Proxies): see `concrete_args` of `trace`."""
        return arguments_of_root(self, root_fn, is_module, concrete_args)

    def trace(self, root, concrete_args=None):
        """The graph of a Module's forward or of a function.

        concrete_args: {argument: value}. The trace takes such arguments as the values that they are, and the graph
        checks that it is called with the same. Containers may hold `fx.PH` where a Proxy is wanted.
        """
        if isinstance(root, Module):
            self.root, self.root_module_name = root, type(root).__name__
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"trace: {class_name(type(root))} has no method {self.traced_func_name}")
            function = getattr(type(root), self.traced_func_name)
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = Module(), root
        if not callable(function):
            raise TypeError(f"trace: expected a Module or a function, got {shown(root)}")
        kind = type(self)
        self.graph = Graph(tracer_cls=kind if "<locals>" not in kind.__qualname__ else None)
        # constants that the root has already keep their names
        self.tensor_attrs = {_key(value): name for name, value in _plain_tensors(self.root)}
        self._kept = []
        function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with Patcher() as self._patcher:
            self._patch(function)
            _active.append(self)
            try:
                result = function(*args)
            finally:
                _active.pop()
        annotations = getattr(inspect.unwrap(function), "__annotations__", {})
        self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=annotations.get("return"))
        self._patcher = self.submodule_paths = None
        return self.graph

    def _patch(self, function):
        cache, wanted = {}, self._autowrap_function_ids
        outer_call, outer_get = Module.__call__, vars(Module).get("__getattribute__", _MODULE_GETATTR)

        @functools.wraps(_C.ModuleBase.__call__)
        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return outer_call(module, *args, **kwargs)

            _autowrap_check(self._patcher, getattr(getattr(module, "forward", None), "__globals__", {}), wanted)
            return self.call_module(module, forward, args, kwargs)

        def get(module, name):
            value = outer_get(module, name)
            return self.getattr(name, value, cache) if isinstance(value, _C.Tensor) else value

        self._patcher.attribute(Module, "__call__", call)
        self._patcher.attribute(Module, "__getattribute__", get)
        _patch_wrapped_functions(self._patcher)
        _autowrap_check(self._patcher, getattr(inspect.unwrap(function), "__globals__", {}), wanted)
        for module in self._autowrap_search:
            _autowrap_check(self._patcher, vars(module), wanted)

    def __deepcopy__(self, memo):
        copied = type(self).__new__(type(self))
        copied.__dict__.update({key: value for key, value in self.__dict__.items() if key != "_patcher"})
        copied._patcher = None
        return copied


# ---- what a trace replaces, under the names that packages with a trace of their own use ------------------------------

_Patcher = Patcher
FunctionType = types.FunctionType
_orig_module_call, _orig_module_getattr = _C.ModuleBase.__call__, _MODULE_GETATTR
ScriptObject = refused_class("ScriptObject", "objects of TorchScript's classes are not here")


def _patch_wrapped_functions(patcher):
    """Functions that `wrap` names, and Python functions of the library: calls with Proxies become Nodes."""
    for space in (_functional, flambeau, sys.modules.get("torch")):
        for name, value in list(vars(space).items()) if space is not None else ():
            if _is_library(value):
                patcher.item(vars(space), name, _recorder(value, False))
    for space, name in list(_wrapped_functions()):
        if name in space or hasattr(_builtins(), name):
            original = space[name] if name in space else getattr(_builtins(), name)
            patcher.item(space, name, _recorder(original, True))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Replaces functions with these ids, and the library's, in the globals of a function that will run."""
    if not patcher.first_time(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if callable(value) and not name.startswith("_") and (id(value) in function_ids or _is_library(value)):
            patcher.item(frame_dict, name, _recorder(value, False))


def _key(value):
    """What `tensor_attrs` knows a constant by: programs look tensors up themselves; other objects may have no hash."""
    return value if isinstance(value, _C.Tensor) else id(value)


def _plain_tensors(root):
    for prefix, module in root.named_modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, _C.Tensor) or type(type(value)) is ProxyableClassMeta:
                yield f"{prefix}.{name}" if prefix else name, value


_SEEN_BY_TRACES = ("_assert numel is_floating_point is_complex is_signed is_nonzero is_conj resolve_conj allclose "
                   "equal result_type can_cast quantize_per_tensor quantize_per_channel dequantize").split()
_LIBRARY = {value for name, value in vars(_functional).items()
            if isinstance(value, types.FunctionType) and not name.startswith("_") and is_ours(value.__module__)}
_LIBRARY |= {getattr(flambeau, name) for name in _SEEN_BY_TRACES
             if isinstance(getattr(flambeau, name), types.FunctionType)}


def _is_library(value):
    return isinstance(value, types.FunctionType) and value in _LIBRARY


def _builtins():
    return sys.modules["builtins"]


def _wrapped_functions():
    """(globals, name) of every function that `wrap` names."""
    return [(space, name) for (_, name), space in _wrapped.items()]


def _recorder(function, by_wrap):
    """`function` that becomes a Node when an argument is a Proxy."""
    if getattr(function, "_fx_original", None) is not None:
        return function

    @functools.wraps(function)
    def recorded(*args, **kwargs):
        found = next(_proxies((args, kwargs)), None)
        if found is None:
            return function(*args, **kwargs)
        proxy = record_call(found.tracer, function, args, kwargs)
        if by_wrap and isinstance(proxy, Proxy):
            proxy.node.meta["is_wrapped"] = True
        return proxy

    recorded._fx_original = function
    return recorded


def symbolic_trace(root, concrete_args=None):
    """A GraphModule of what a Module's forward or a function does, found by running it with Proxies.

    concrete_args: see `Tracer.trace`. Submodules of the library stay whole.

    >>> import flambeau
    >>> gm = flambeau.fx.symbolic_trace(lambda x, y=2: x * y)
    >>> gm(flambeau.ones(2)), [node.op for node in gm.graph.nodes]
    (tensor([2., 2.]), ['placeholder', 'placeholder', 'call_function', 'output'])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)


def wrap(fn_or_name):
    """Says, at the top of a module, that calls of a function are one Node: the function itself, or a name in it.

    A name may be a builtin's: after `wrap("len")`, `len(proxy)` is recorded. As a decorator it returns the function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(f"wrap: expected a function of this module or its name, got {shown(fn_or_name)}")
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap: call it at the top of the module, where the function has its global name, not "
                                  f"inside {frame.f_code.co_name}")
    if isinstance(fn_or_name, str):
        name = fn_or_name
    elif isinstance(fn_or_name, types.FunctionType):
        name = fn_or_name.__name__
    else:
        raise RuntimeError(f"wrap: {shown(fn_or_name)} is not a Python function; give its name as a string")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name
