"""Proxy: stands for a value while a function is traced; whatever is done with it becomes a Node."""

import copy
import dataclasses
import enum
import operator
import sys
import traceback as _traceback
from collections import OrderedDict
from pathlib import Path

from .. import _C
from .._shown import class_name, shown
from ..ops.namespaces import Overload, Packet
from ._targets import INFIX
from .immutable_collections import immutable_dict
from .node import Node, base_types
from .operator_schemas import check_for_mutable_operation

_OWN_FILES = str(Path(__file__).parent.parent)


class TraceError(ValueError):
    """The traced program asks for a value, which a trace does not have."""


class Scope:
    """The submodule whose forward is being traced: its dotted name and its class."""

    def __init__(self, module_path, module_type):
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """While inside, `current_scope` is `scope`; gives the scope that was before."""

    def __init__(self, scope, current_scope):
        self._before = copy.copy(scope)
        self._scope = scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self):
        return self._scope

    def __exit__(self, *_):
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


def user_line():
    """The innermost line of the program, outside this library, as `file:line in name: code`."""
    frame = sys._getframe(1)
    while frame is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    summary = _traceback.extract_stack(frame, limit=1)[0]
    return f"{summary.filename}:{summary.lineno} in {summary.name}: {summary.line or ''}".rstrip(": ")


def _is_own(filename):
    return filename.startswith(_OWN_FILES) or filename == "<string>"


def _stack():
    """The stack of the program as text, outermost first, without this library's own lines."""
    frames = [f for f in _traceback.extract_stack(sys._getframe(2)) if not _is_own(f.filename)]
    return "".join(_traceback.StackSummary.from_list(frames).format()).strip()


class TracerBase:
    """What makes Nodes of what happens to Proxies; `Tracer` adds modules and functions.

    record_stack_traces       Nodes know the lines that made them (`Node.stack_trace`)
    check_mutable_operations  RuntimeError for functions that change their arguments
    trace_asserts             `assert proxy` becomes a Node instead of an error
    proxy_buffer_attributes   reading a buffer from a module gives a Proxy
    """

    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope = None
    module_stack = None
    node_name_to_scope = None

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a Node; override it to see or change what is recorded."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.node_name_to_scope is not None and self.scope is not None:
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = OrderedDict(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = _stack()
        current = sys.modules["flambeau.fx.traceback"].get_current_meta() \
            if "flambeau.fx.traceback" in sys.modules else None
        if current:
            node.meta.update({key: value for key, value in current.items() if key not in node.meta})
        return node

    def proxy(self, node):
        """The Proxy for a Node."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """Adds a Node for these arguments, in which values may be Proxies; gives its Proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("create_proxy: args must be a tuple and kwargs a dict")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a):
        """A value as an argument of a Node: Proxies become their Nodes; NotImplementedError where it cannot be one.

        Override it to let further classes in; an object with `__fx_create_arg__(tracer)` says itself what it becomes.
        """
        if isinstance(a, Proxy):
            return a.node
        own = getattr(type(a), "__fx_create_arg__", None)
        if own is not None:
            return own(a, self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return self._dict_arg(a)
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum, type, Node, _C.Op, Overload, Packet)):
            return a
        raise NotImplementedError(f"tracing: {shown(a)} cannot be an argument of a Node, at {user_line()}; arguments "
                                  "are Proxies, tensors, numbers, strings, dtypes, devices and containers of those. A "
                                  "class of your own says what it becomes by __fx_create_arg__(self, tracer)")

    def _dict_arg(self, a):
        def check(node):
            raise RuntimeError(f"tracing: keys of dicts must be values, not Proxies, at {user_line()}")

        found = {}
        for key, value in a.items():
            key = self.create_arg(key)
            if isinstance(key, Node) or (isinstance(key, tuple) and any(isinstance(k, Node) for k in key)):
                check(key)
            found[key] = self.create_arg(value)
        return immutable_dict(found) if isinstance(a, immutable_dict) else found

    def functions_as_graphs(self, args):
        """Arguments of a control flow operator: a Tracer makes graphs of the functions among them."""
        return args

    def to_bool(self, obj):
        """Called where the program asks whether a Proxy is true: TraceError unless overridden."""
        raise TraceError(f"the program decides by the value of {obj}, which a trace does not have, at {user_line()}; "
                         "give the value by concrete_args= if it is an argument, use flambeau.where or flambeau.cond, "
                         "or keep the function whole by fx.wrap or Tracer.is_leaf_module")

    def iter(self, obj):
        """Called where the program iterates over a Proxy: unpacking into names works, anything else is a TraceError."""
        raise TraceError(f"the program iterates over {obj}, whose length a trace does not have, at {user_line()}; "
                         "index it, unpack it into a fixed number of names, or keep the function whole by fx.wrap")

    def keys(self, obj):
        """Called where the program asks for a Proxy's keys, as `**proxy` does: a Node that asks for them."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds Nodes to a graph that exists: what Proxies of its Nodes use."""

    def __init__(self, graph):
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x):
    """AssertionError unless x, also under `python -O`: what a traced `assert` becomes."""
    if not x:
        raise AssertionError


class Proxy:
    """Stands for the value of a Node: operators, functions, attributes and methods of it add Nodes and give Proxies.

    Asking for its value (`if proxy`, `int(proxy)`, `for x in proxy`, `len(proxy)`) is an error that names the line.

    >>> import flambeau
    >>> graph = flambeau.fx.Graph()
    >>> x = flambeau.fx.Proxy(graph.placeholder("x"))
    >>> y = x.sin() * 2
    >>> [node.name for node in graph.nodes]
    ['x', 'sin', 'mul']
    """

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, k):
        if k in ("node", "tracer"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, d):
        self.__dict__ = d

    def __deepcopy__(self, memo):
        return Proxy(self.node, self.tracer)

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        count = _unpacked_names()
        if count is not None:
            return (self[k] for k in range(count))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts and _in_assert():
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self):
        """What `**proxy` asks: see Tracer.keys."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError(f"len({self.node}): a trace does not have the length, at {user_line()}; call fx.wrap('len') "
                           "at the top of the module to record such calls")

    @classmethod
    def __torch_function__(cls, orig_method, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        tracers = {id(p.tracer): p.tracer for p in _proxies((args, kwargs))}
        if len(tracers) != 1:
            raise RuntimeError(f"{getattr(orig_method, '__name__', orig_method)}: the Proxies of one call must be of "
                               f"one trace, found {len(tracers)}, at {user_line()}")
        return record_call(next(iter(tracers.values())), orig_method, args, kwargs)


def record_call(tracer, function, args, kwargs):
    """The Proxy of a call of a function, or of a method of Tensor."""
    if getattr(function, "__module__", "").endswith(".control_flow"):
        args = tracer.functions_as_graphs(args)
    if isinstance(function, _C.Op) or not _is_method(function):
        return tracer.create_proxy("call_function", function, args, kwargs)
    return tracer.create_proxy("call_method", function.__name__, args, kwargs)


def _is_method(function):
    return getattr(_C.Tensor, getattr(function, "__name__", ""), None) is function


def _proxies(value):
    if isinstance(value, Proxy):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _proxies(item)
    elif isinstance(value, dict):
        yield from _proxies(list(value.values()))
    elif isinstance(value, slice):
        yield from _proxies([value.start, value.stop, value.step])


def _instruction(frame):
    """The instruction that a frame is at, and those after it."""
    dis = sys.modules.get("dis") or __import__("dis")
    found = list(dis.get_instructions(frame.f_code))
    at = next(k for k, instruction in enumerate(found) if instruction.offset >= frame.f_lasti)
    return found[at:]


def _unpacked_names():
    """How many names the caller of __iter__ unpacks into; None where it does something else."""
    frame = sys._getframe(2)
    here, *_ = _instruction(frame)
    return here.argval if here.opname == "UNPACK_SEQUENCE" else None


def _in_assert():
    """Whether the truth is asked by an `assert`."""
    frame = sys._getframe(2)
    names = [i.opname for i in _instruction(frame) if i.opname not in ("CACHE", "TO_BOOL", "NOT_TAKEN")]
    if names[0] == "COMPARE_OP" and sys.version_info >= (3, 13):  # compares and asks at once
        names = names[1:]
    return len(names) > 1 and "JUMP" in names[0] and names[1] in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")


class Attribute(Proxy):
    """`proxy.name`: a call of it is a method's, and any other use reads the attribute."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        """The Node that reads the attribute; made when it is first asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter whose shape the program may ask for while it is traced."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, _C.Tensor):
            raise AssertionError(f"ParameterProxy: param must be a Parameter, got {class_name(type(param))}")
        self.name, self.param = name, param

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        """The parameter's shape."""
        return self.param.shape

    @property
    def ndim(self):
        """How many dimensions it has."""
        return self.param.ndim

    def size(self, *args):
        """Its size."""
        return self.param.size(*args)

    def dim(self):
        """How many dimensions it has."""
        return self.param.dim()

    def numel(self):
        """How many elements it has."""
        return self.param.numel()

    nelement = numel


def _operation(name):
    function = getattr(operator, name)

    def operate(self, *others):
        tracer = self.tracer
        return tracer.create_proxy("call_function", function, (self, *others), {})

    method = f"__{name.rstrip('_')}__"
    operate.__name__ = operate.__qualname__ = method
    return method, operate


def _reflected(name):
    function = getattr(operator, name)

    def operate(self, rhs):
        return self.tracer.create_proxy("call_function", function, (rhs, self), {})

    method = f"__r{name.rstrip('_')}__"
    operate.__name__ = operate.__qualname__ = method
    return method, operate


_COMPARISONS = {"eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert", "getitem"}
for _name in INFIX:
    setattr(Proxy, *_operation(_name))
    if _name not in _COMPARISONS:
        setattr(Proxy, *_reflected(_name))
Proxy.__hash__ = object.__hash__
