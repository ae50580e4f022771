"""Node: one step of a graph, which knows what it uses (`args`, `kwargs`) and who uses it (`users`)."""

import builtins
import types
from collections.abc import Mapping

import flambeau

from .. import _C
from .._shown import shown
from ..autograd import profiler
from ..ops.kinds import writes_by_name
from ..ops.namespaces import READINGS, Overload
from ._targets import listed_name, type_text
from ._targets import qualified_name as _get_qualified_name  # noqa: F401 (packages take it from here)
from .immutable_collections import immutable_dict, immutable_list
from .operator_schemas import normalize_function, normalize_module

#: kinds of nodes
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
#: what arguments may be besides Nodes and containers of them
BaseArgumentTypes = (str, int, float, bool, complex, _C.dtype, _C.Tensor, _C.device, _C.memory_format)
base_types = BaseArgumentTypes
Target = object
Argument = object

_type_repr = type_text
_side_effectful_functions = {flambeau._assert, builtins.print, setattr, delattr, profiler._record_function_enter,
                             profiler._record_function_exit, READINGS["assert"]}
#: kept in a file: data that mentions no other Node
LASTING_META = ("stack_trace", "tensor_meta", "type", "custom", "is_wrapped")


def has_side_effect(fn):
    """Marks a function whose calls `eliminate_dead_code` keeps though nobody uses their result; returns it.

    >>> import flambeau
    >>> @flambeau.fx.has_side_effect
    ... def log(x):
    ...     print(x)
    """
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a, fn):
    """`a` with fn(leaf) for every leaf of its tuples, lists, dicts and slices; lists and dicts become immutable.

    >>> from flambeau.fx.node import map_aggregate
    >>> map_aggregate((1, [2, slice(3)]), lambda x: x and -x)
    (-1, [-2, slice(None, -3, None)])
    """
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else _like_tuple(a, items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def _like_tuple(a, items):
    if type(a) is tuple or (isinstance(a, _C.Size) and not all(isinstance(x, int) for x in items)):
        return tuple(items)
    return type(a)(items)


def map_arg(a, fn):
    """`a` with fn(node) in the place of every Node; lists and dicts become immutable."""
    if not callable(fn):
        raise AssertionError(f"map_arg: fn must be a function of one Node, got {shown(fn)}")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def nodes_in(*values):
    """{Node: None} of every Node in these arguments, in order."""
    found = {}
    map_arg(values, lambda node: found.setdefault(node))
    return found


def _format_arg(arg, max_list_len=float("inf")):
    """An argument as a graph's listing shows it: Nodes as %name."""
    if hasattr(arg, "_fields") and isinstance(arg, tuple):
        return f"{type(arg).__name__}({', '.join(f'{k}={_format_arg(v)}' for k, v in arg._asdict().items())})"
    if isinstance(arg, (list, tuple)):
        items = [_format_arg(x) for k, x in enumerate(arg) if k < max_list_len]
        if len(arg) > len(items):
            items.append(f"...[total_len={len(arg)}]")
        if isinstance(arg, list):
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(arg) == 1 else ''})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(value)}" for key, value in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One step of a `Graph`: what it does (`op`, `target`), to what (`args`, `kwargs`), and who uses it (`users`).

    op              target is                       the step
    placeholder     the name of an argument         an argument; args: its default, if it has one
    get_attr        a dotted name                   a parameter, buffer or other attribute of the module
    call_function   a function or operator          target(*args, **kwargs)
    call_module     the dotted name of a submodule  its call
    call_method     a name                          args[0].target(*args[1:], **kwargs)
    output          "output"                        returns args[0]

    Nodes are made by a graph's methods, not by this class. `meta` is a dict for what passes find out.

    >>> import flambeau
    >>> graph = flambeau.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(flambeau.add, (x, 1))
    >>> y.all_input_nodes, list(x.users), y.format_node()
    ([x], [add], '%add : [num_users=0] = call_function[target=flambeau.add](args = (%x, 1), kwargs = {})')
    """

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op not in OPS:
            raise AssertionError(f"Node: op must be one of {', '.join(OPS)}, got {shown(op)}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node: the target of a call_function is a function, got {shown(target)} for {name}")
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(f"Node: the target of a {op} is a string, got {shown(target)} for {name}")
        state = self.__dict__
        state.update(graph=graph, name=name, op=op, target=target, type=return_type, users={}, meta={}, _args=(),
                     _kwargs=immutable_dict(), _input_nodes={}, _prev=self, _next=self, _erased=False, _order=0,
                     _repr_fn=None)
        self._use(args, kwargs)

    # ---- place in the graph ----------------------------------------------------------------------------------------

    @property
    def next(self):
        """The Node after this one; after the last comes the graph's root, whose op is "root"."""
        return self._next

    @property
    def prev(self):
        """The Node before this one; before the first comes the graph's root."""
        return self._prev

    def prepend(self, x):
        """Moves Node x, of the same graph, before this one."""
        self._check_place(x, "prepend")
        if x is self:
            return
        self.graph._place(x, self._prev)

    def append(self, x):
        """Moves Node x, of the same graph, after this one."""
        self._check_place(x, "append")
        if x is self:
            return
        self.graph._place(x, self)

    def _check_place(self, x, what):
        if x.graph is not self.graph:
            raise AssertionError(f"{what}: {x} belongs to another graph; copy it with graph.node_copy")

    def __lt__(self, other):
        """Whether it comes before `other` in their graph."""
        return self._order < other._order

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return not other < self

    def __ge__(self, other):
        return not self < other

    # ---- what it uses ----------------------------------------------------------------------------------------------

    @property
    def args(self):
        """The positional arguments. To change them assign a new tuple: the graph keeps count of users."""
        return self._args

    @args.setter
    def args(self, a):
        self._use(a, self._kwargs)

    @property
    def kwargs(self):
        """The keyword arguments. To change them assign a new dict."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k):
        self._use(self._args, k)

    def _use(self, args, kwargs):
        if not isinstance(args, tuple) or not isinstance(kwargs, Mapping):
            raise AssertionError(f"Node {self.name}: args must be a tuple and kwargs a dict, got {shown(args)} and "
                                 f"{shown(kwargs)}")
        found = {}

        def see(x):
            if isinstance(x, Node):
                found.setdefault(x)
            return x

        self._args, self._kwargs = map_aggregate(args, see), map_aggregate(dict(kwargs), see)
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = found
        for new in found:
            new.users.setdefault(self)

    @property
    def all_input_nodes(self):
        """The Nodes among its arguments, each once, in order."""
        return list(self._input_nodes)

    def update_arg(self, idx, arg):
        """Puts `arg` in the place of args[idx]."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Puts `arg` before args[idx]."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_arg: {self.name} has {len(self._args)} arguments; idx must be 0 to "
                                 f"{len(self._args)}, got {shown(idx)}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key, arg):
        """Sets kwargs[key]."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input, new_input):
        """Uses `new_input` wherever it used `old_input`."""
        def changed(node):
            return new_input if node is old_input else node

        self._tell_replaced(old_input, new_input, self)
        self._use(map_arg(self._args, changed), map_arg(self._kwargs, changed))

    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Lets all users use `replace_with` instead (of those only for which delete_user_cb(user) is true); returns
        them. propagate_meta: gives its `meta` to `replace_with`, which must have none."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(f"replace_all_uses_with: propagate_meta=True needs an empty meta, and "
                                     f"{replace_with} has {shown(list(replace_with.meta))}")
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def _tell_replaced(self, old, new, user):
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()) if new is not None else ():
            hook(old=old, new=getattr(new, "name", new), user=user)

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self):
        """The lines of the program that made it, where the Tracer recorded them (`record_stack_traces`)."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Whether it does something besides computing its result: writes, prints, asserts, or is an argument or the
        output. impure_random: random operators count too, since they move the random stream on."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effectful_functions or _writes(self.target, self._kwargs) or (
                impure_random and getattr(self.target, "random", False) is True)
        if self.op == "call_method":
            return writes_by_name(self.target)
        if self.op == "call_module":
            return self._calls_impure_module(impure_random)
        return False

    def _calls_impure_module(self, impure_random):
        owner = self.graph.owning_module
        if owner is None:
            raise AssertionError(f"is_impure: {self.name} calls a submodule, and its graph belongs to no GraphModule")
        module = owner.get_submodule(self.target)
        if isinstance(module, flambeau.fx.GraphModule):
            return any(node.is_impure(impure_random) for node in module.graph.nodes
                       if node.op not in ("placeholder", "output"))
        return getattr(module, "_is_impure", False)

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
        """Its arguments as the signature of its target names them, with defaults: an ArgsKwargsPair, or None where the
        signature is not known. arg_types and kwarg_types tell overloads apart."""
        if self.op == "call_function":
            return normalize_function(self.target, self._args, self._kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate):
        """Another name, made unique."""
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace.associate_name_with_obj(self.name, self)

    def __setattr__(self, name, value):
        if name in ("name", "op", "target") and self.__dict__.get(name) is not value:
            graph = self.__dict__.get("graph")
            if graph is not None and not self._erased:
                graph._node_changes(self, name, value)
                return
        object.__setattr__(self, name, value)

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self.name

    def __reduce__(self):
        return _node_of, (self.graph, list(self.graph.nodes).index(self))

    def __deepcopy__(self, memo):
        raise NotImplementedError(f"deepcopy: {self} belongs to a graph; copy the graph, or use graph.node_copy")

    @staticmethod
    def _pretty_print_target(target):
        """The target as listings show it."""
        return listed_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *, include_tensor_metadata=False):
        """Its line in the graph's listing. `placeholder_names` and `maybe_return_typename` are lists that collect the
        arguments and the type of the result instead of giving lines for them."""
        kind = f"{type_text(self.type)} " if self.type else ""
        users = f"{kind}[num_users={len(self.users)}]"
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{': ' + type_text(self.type) if self.type else ''}{default}")
                return None
            return f"%{self.name} : {users} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {users} = {self.op}[target={listed_name(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self._args[0]}"
        return (f"%{self.name} : {users}{self._described(include_tensor_metadata)} = {self.op}"
                f"[target={listed_name(self.target)}](args = {_format_arg(self._args)}, "
                f"kwargs = {_format_arg(self._kwargs)})")

    def _described(self, wanted):
        value = self.meta.get("val", self.meta.get("tensor_meta")) if wanted else None
        return f" {value_text(value)}" if value is not None and hasattr(value, "shape") else ""


def value_text(value, stride=False, device=False):
    """A tensor's dtype and shape in short: `f32[2, 3]`."""
    text = _SHORT.get(value.dtype, str(value.dtype).rpartition(".")[2]) + str(list(value.shape))
    if stride:
        text += str(list(value.stride() if callable(value.stride) else value.stride))
    if device and hasattr(value, "device"):
        text += str(value.device)
    return text


_SHORT = {_C.float32: "f32", _C.float64: "f64", _C.float16: "f16", _C.bfloat16: "bf16", _C.complex64: "c64",
          _C.complex128: "c128", _C.complex32: "c32", _C.int8: "i8", _C.int16: "i16", _C.int32: "i32",
          _C.int64: "i64", _C.bool: "b8", _C.uint8: "u8", _C.uint16: "u16", _C.uint32: "u32", _C.uint64: "u64"}


def _node_of(graph, index):
    """The Node at a place of a graph (files of pickle ask)."""
    return list(graph.nodes)[index]


def _writes(target, kwargs):
    """Whether a function changes one of its arguments."""
    if isinstance(target, _C.Op):
        return target.is_inplace or target.name.endswith("_") or kwargs.get("out") is not None or (
            kwargs.get("inplace") is True) or "!)" in (target.schema or "")  # an argument that is marked as written to
    if isinstance(target, Overload):
        return target._schema.is_mutable if hasattr(target._schema, "is_mutable") else "!" in str(target._schema)
    if isinstance(target, types.BuiltinFunctionType) and target.__module__ == "_operator":
        return target.__name__ in INPLACE_OPERATORS
    return False


INPLACE_OPERATORS = frozenset("iadd iand ifloordiv ilshift imod imul imatmul ior ipow irshift isub itruediv ixor "
                              "setitem delitem".split())
