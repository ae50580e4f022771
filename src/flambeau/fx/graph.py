"""Graph: Nodes in the order they run, and the methods that add, move, copy, check and remove them."""

import warnings
from collections import defaultdict

from .._shown import shown
from ._codegen import CodeGen as CodeGen
from ._codegen import PythonCode as PythonCode
from ._codegen import _BoxedCodeGen as _BoxedCodeGen
from ._lint import lint_target, lint_use, subgraphs
from ._names import Namespace, snake_case
from ._pytree_codegen import _PyTreeCodeGen as _PyTreeCodeGen
from ._pytree_codegen import _PyTreeInfo as _PyTreeInfo
from ._table import table
from ._targets import base_name, listed_name
from .node import LASTING_META, Node, map_aggregate, map_arg

_register_custom_builtin = CodeGen.register_builtin
_Namespace = Namespace
_snake_case = snake_case
_NO_DEFAULT = object()
_STEP = 1 << 32


class _InsertPoint:
    """Where new Nodes go; as a context it gives back the place that was before."""

    def __init__(self, graph, after):
        self.graph, self.before = graph, graph._insert_after
        graph._insert_after = after

    def __enter__(self):
        return None

    def __exit__(self, *_):
        self.graph._insert_after = self.before


class _NodeList:
    """The Nodes of a graph in order; Nodes may be added and removed while it is walked."""

    def __init__(self, graph, forward=True):
        self.graph, self.forward = graph, forward

    def __len__(self):
        return self.graph._len

    def __iter__(self):
        root = self.graph._root
        step = "_next" if self.forward else "_prev"
        node = getattr(root, step)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __reversed__(self):
        return _NodeList(self.graph, not self.forward)


class Graph:
    """A program as a list of `Node`s, each the result of one step; `GraphModule` runs it.

    >>> import flambeau
    >>> graph = flambeau.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(flambeau.relu, (x,))
    >>> _ = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=flambeau.relu](args = (%x,), kwargs = {})
        return relu

    owning_module   the GraphModule it belongs to
    tracer_cls      the Tracer class that made it; a GraphModule that is stored names it
    tracer_extras   further arguments of that Tracer's trace
    """

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._graph_namespace = Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._insert_after = None  # None: at the end
        self._by_target = defaultdict(dict)
        self._owners = []
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields = {}
        if owning_module is not None:
            self.owning_module = owning_module

    @property
    def owning_module(self):
        """The GraphModule it belongs to; None where there is none, or several."""
        return self._owners[0] if len(self._owners) == 1 else None

    @owning_module.setter
    def owning_module(self, module):
        self._owners = [] if module is None else [*(m for m in self._owners if m is not module), module]

    @property
    def nodes(self):
        """Its Nodes in order; reversed() gives them backwards, and they may be changed on the way."""
        return _NodeList(self)

    # ---- finding ---------------------------------------------------------------------------------------------------

    def output_node(self):
        """The Node that returns."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"output_node: the last Node must be the output, got {last.op} {last}")
        return last

    def find_nodes(self, *, op, target=None, sort=True):
        """The Nodes of one kind (and target, which call_function always needs), in order unless sort=False."""
        if target is None and op == "call_function":
            raise AssertionError("find_nodes: op='call_function' needs a target=")
        found = [node for (its_op, its_target), nodes in list(self._by_target.items()) for node in nodes
                 if its_op == op and (target is None or its_target == target)
                 ] if target is None else list(self._by_target.get((op, target), ()))
        return sorted(found) if sort else found

    # ---- adding ----------------------------------------------------------------------------------------------------

    def inserting_before(self, n=None):
        """New Nodes go before n (None: to the beginning), from now on or inside `with`."""
        return self._inserting(self._root._next if n is None else n, "_prev", "inserting_before")

    def inserting_after(self, n=None):
        """New Nodes go after n (None: to the end), from now on or inside `with`; each after the one made before it.

        >>> import flambeau
        >>> gm = flambeau.fx.symbolic_trace(lambda x: x.relu())
        >>> relu = gm.graph.find_nodes(op="call_method", target="relu")[0]
        >>> with gm.graph.inserting_after(relu):
        ...     twice = gm.graph.call_function(flambeau.mul, (relu, 2))
        >>> [node.name for node in gm.graph.nodes]
        ['x', 'relu', 'mul', 'output']
        """
        return self._inserting(self._root._prev if n is None else n, None, "inserting_after")

    def _inserting(self, node, side, what):
        if node.graph is not self:
            raise AssertionError(f"{what}: {node} belongs to another graph")
        after = node if side is None else getattr(node, side)
        return _InsertPoint(self, (node, after, side))

    def _insertion_place(self):
        """The Node that a new one comes after."""
        if self._insert_after is None:
            return self._root._prev
        anchor, after, side = self._insert_after
        if side is not None:  # before the anchor, wherever it stands now
            return anchor._prev
        return after

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Adds a Node at the insertion point; its name is made unique."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(f"create_node: args must be a tuple and kwargs a dict, got {shown(args)} and "
                                 f"{shown(kwargs)}")
        unique = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name, None)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(unique, node)
        if getattr(self.owning_module, "_create_node_hooks", None):
            for hook in self.owning_module._create_node_hooks:
                hook(node)
        self._place(node, self._insertion_place(), new=True)
        if self._insert_after is not None and self._insert_after[2] is None:
            self._insert_after = (self._insert_after[0], node, None)
        self._by_target[op, target][node] = None
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=_NO_DEFAULT):
        """Adds an argument; `name` with stars takes the further positional or keyword arguments."""
        args = () if default_value is _NO_DEFAULT else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """Adds the value of an attribute of the module, by its dotted name."""
        self._warn_missing("get_attr", qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """Adds the call of a submodule, by its dotted name."""
        self._warn_missing("call_module", module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def _warn_missing(self, what, name):
        value = self.owning_module
        for part in name.split(".") if value is not None else ():
            value = getattr(value, part, None)
            if value is None:
                warnings.warn(f"Graph.{what}: the module of this graph has no {shown(name)} yet; add it "
                              "(add_submodule, register_parameter …) before the code runs", stacklevel=3)
                return

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """Adds args[0].method_name(*args[1:], **kwargs)."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """Adds the_function(*args, **kwargs)."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result, type_expr=None):
        """Adds the Node that returns `result`: a Node, or containers of Nodes and values."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # ---- copying ---------------------------------------------------------------------------------------------------

    def node_copy(self, node, arg_transform=lambda x: x):
        """Adds a copy of a Node of this or another graph; arg_transform(old Node) gives the Node of this graph that
        stands in its place among the arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("node_copy: arg_transform must give a Node for a Node")
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g, val_map, return_output_node=False):
        """Adds copies of all Nodes of g but its output; returns what g returns, in terms of the copies, or None where
        g has no output (with return_output_node also g's output Node).

        `val_map` is filled with {Node of g: its copy}; Nodes that it has already are not copied.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo=None):
        copied = Graph(tracer_cls=self._tracer_cls)
        val_map = {}
        copied._codegen = self._codegen.copied()
        found = copied.graph_copy(self, val_map, return_output_node=True)
        if found is not None:
            result, old = found
            copied.output(result, old.type).meta = dict(old.meta)
        if memo is not None:
            memo[id(self)] = copied
            memo.update((id(old), new) for old, new in val_map.items())
        return copied

    def __reduce__(self):
        return _graph_of, (_record(self), self._codegen, self._tracer_cls, self._tracer_extras)

    # ---- changing --------------------------------------------------------------------------------------------------

    def erase_node(self, to_erase):
        """Removes a Node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(f"erase_node: {to_erase} is used by {', '.join(map(str, to_erase.users))}; let them use "
                               f"something else first, by {to_erase}.replace_all_uses_with(…), or remove them")
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: {to_erase} belongs to another graph")
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._leave(to_erase)
        if self._insert_after is not None and self._insert_after[1] is to_erase:
            self._insert_after = (to_erase._prev, to_erase._prev, None)
        self._by_target[to_erase.op, to_erase.target].pop(to_erase, None)
        to_erase._erased = True
        self._len -= 1
        to_erase._use(tuple(map_arg(a, lambda _: None) for a in to_erase.args),
                      {key: map_arg(a, lambda _: None) for key, a in to_erase.kwargs.items()})

    def _node_changes(self, node, field, value):
        """A Node is given another name, op or target: what the graph looks it up by follows."""
        if field == "name":
            self._graph_namespace.associate_name_with_obj(value, node)
            node.__dict__["name"] = value
            return
        self._by_target[node.op, node.target].pop(node, None)
        node.__dict__[field] = value
        self._by_target[node.op, node.target][node] = None

    def _leave(self, node):
        node._prev.__dict__["_next"], node._next.__dict__["_prev"] = node._next, node._prev

    def _place(self, node, after, new=False):
        """Puts a Node behind another; neighbours get numbers in order, so that any two can be compared."""
        if after is node:
            return
        if not new:
            self._leave(node)
        before = after._next
        node.__dict__.update(_prev=after, _next=before)
        after.__dict__["_next"] = before.__dict__["_prev"] = node
        low = after._order
        high = low + 2 * _STEP if before is self._root else before._order
        node.__dict__["_order"] = (low + high) // 2
        if not low < node._order < high:
            for k, each in enumerate(self.nodes, 1):
                each.__dict__["_order"] = k * _STEP

    def eliminate_dead_code(self, is_impure_node=None):
        """Removes Nodes that nobody uses and that do nothing else; returns whether there were any.

        is_impure_node(node) says which to keep; by default `Node.is_impure`.

        >>> import flambeau
        >>> def f(x):
        ...     unused = x.exp()
        ...     return x + 1
        >>> gm = flambeau.fx.symbolic_trace(f)
        >>> gm.graph.eliminate_dead_code(), [node.name for node in gm.graph.nodes]
        (True, ['x', 'add', 'output'])
        """
        self.lint()
        before = self._len
        for node in reversed(self.nodes):
            kept = node.op in ("placeholder", "output") or (
                node.is_impure() if is_impure_node is None else is_impure_node(node))
            if not kept and not node.users:
                self.erase_node(node)
        changed = self._len != before
        for node in self.nodes:
            for inner in subgraphs(node):
                changed = inner.graph.eliminate_dead_code(is_impure_node) or changed
        return changed

    def lint(self):
        """RuntimeError where the graph is not well formed: an argument that comes later or from elsewhere, two Nodes of
        one name, a target that the module does not have."""
        names, seen, module = set(), set(), self.owning_module
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"lint: {node} belongs to another graph")
            if node.name in names:
                raise RuntimeError(f"lint: two Nodes are called {node.name}")
            names.add(node.name)
            for used in node._input_nodes:
                lint_use(self, node, used, seen)
            if module is not None:
                lint_target(module, node)
            seen.add(node)

    # ---- code ------------------------------------------------------------------------------------------------------

    def _target_to_str(self, target):
        return snake_case(base_name(target).replace(".", "_"))

    def process_inputs(self, *args):
        """Arguments of the function as the values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """What the output Node returns as the function's result."""
        return self._codegen.process_outputs(out)

    def python_code(self, root_module, *, verbose=False, include_stride=False, include_device=False, colored=False,
                    expanded_def=False, record_func=False, additional_meta=None):
        """A PythonCode: the source of a function `forward` that does what the graph says, and its globals.

        root_module names the module in it. verbose: comments with the lines that made each step, and annotations with
        dtype and shape, where they are known, include_stride and include_device with those; colored: with escapes for
        a terminal; expanded_def: one argument per line; record_func: runs inside a profiler's range;
        additional_meta: names of further `meta` to show.
        """
        if record_func:
            raise NotImplementedError("python_code: record_func=True would open a profiler's range for every Node; put "
                                      "flambeau.profiler.record_function around the call")
        names = Namespace()
        before = [(node, node._repr_fn) for node in self.nodes]
        for node, _ in before:
            node._repr_fn = lambda n: names.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, names, verbose=verbose, include_stride=include_stride,
                include_device=include_device, colored=colored, expanded_def=expanded_def,
                additional_meta=additional_meta)
        finally:
            for node, function in before:
                node._repr_fn = function

    def set_codegen(self, codegen):
        """Sets the CodeGen that writes its function."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer):
        """Registers a change to generated code: make_transformer(the one before, or None) gives a function from the
        list of the body's lines to another; as a context it holds inside `with` only."""
        return self._codegen.transforming(make_transformer)

    def __str__(self):
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self):
        """Prints a table: one row per Node."""
        rows = [[node.op, node.name, listed_name(node.target) if not isinstance(node.target, str) else node.target,
                 node.args, node.kwargs] for node in self.nodes]
        print(table(["opcode", "name", "target", "args", "kwargs"], rows))


class _Ref:
    """Stands for a Node in a file: its number."""

    def __init__(self, index):
        self.index = index


def _record(graph):
    """The Nodes of a graph as data: in their arguments a Node is its number."""
    nodes = list(graph.nodes)
    refs = {node: _Ref(k) for k, node in enumerate(nodes)}
    return [(n.op, n.name, n.target, map_arg(n.args, refs.__getitem__), map_arg(n.kwargs, refs.__getitem__), n.type,
             _lasting(n.meta)) for n in nodes]


def _lasting(meta):
    return {key: meta[key] for key in LASTING_META if key in meta}


def _graph_of(rows, codegen, tracer_cls, tracer_extras):
    """The graph that such rows describe (files of pickle ask)."""
    graph, made = Graph(tracer_cls=tracer_cls, tracer_extras=tracer_extras), []
    graph._codegen = codegen
    for op, name, target, args, kwargs, kind, meta in rows:
        def found(x):
            return made[x.index] if isinstance(x, _Ref) else x

        node = graph.create_node(op, target, map_aggregate(args, found), map_aggregate(kwargs, found), name, kind)
        node.meta = meta
        made.append(node)
    return graph


_graph_of._restores = True
