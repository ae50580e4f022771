"""Interpreter: runs a graph Node by Node; Transformer: makes a new graph on the way."""

import inspect

from .._shown import shown
from ..nn import Module
from . import traceback as _traceback
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate, map_arg
from .proxy import Proxy


class Interpreter:
    """Runs the graph of a module, one method call per Node; subclasses override `run_node` or a kind's method.

    garbage_collect_values  drops values after their last use
    graph                   runs this graph, with the module's attributes

    >>> import flambeau
    >>> class Doubled(flambeau.fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return 2 * super().call_function(target, args, kwargs)
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.neg(x))
    >>> Doubled(gm).run(flambeau.tensor(3.0))
    tensor(-6.)
    """

    def __init__(self, module, garbage_collect_values=True, graph=None):
        if not isinstance(module, Module):
            raise AssertionError(f"Interpreter: expected a Module, got {shown(module)}")
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses = _last_uses(self.graph)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The graph's result for these arguments.

        initial_env: {Node: value} of Nodes that are not run. enable_io_processing=False: `args` are the values of the
        placeholders, and the result is what the output Node returns, without the graph's CodeGen.
        """
        self.env = dict(initial_env) if initial_env else {}
        values = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter = iter(values)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _note(error, node)
                raise
            for unused in self.user_to_last_uses.get(node, ()) if self.garbage_collect_values else ():
                del self.env[unused]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list):
        """run(*args_list), which empties the list, so that arguments can be dropped after their last use."""
        values = list(self.graph.process_inputs(*args_list))
        args_list.clear()
        placeholders = self.graph.find_nodes(op="placeholder")
        env = dict(zip(placeholders, values, strict=True))
        del values
        return self.run(initial_env=env)

    def run_node(self, n):
        """The value of one Node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def _set_current_node(self, node):
        return _traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}")

    def placeholder(self, target, args, kwargs):
        """The next argument; its default where the caller gave no more."""
        if target.startswith("*"):
            rest = list(self.args_iter)
            return rest[0] if target.startswith("**") and len(rest) == 1 and isinstance(rest[0], dict) else rest
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Interpreter.run: there is no value for the argument {target}") from None

    def get_attr(self, target, args, kwargs):
        """The attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """target(*args, **kwargs)."""
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """args[0].target(*args[1:], **kwargs)."""
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """The call of the submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """What the graph returns."""
        return args[0]

    def fetch_attr(self, target):
        """The attribute of the module at a dotted name."""
        value = self.module
        parts = target.split(".")
        for k, name in enumerate(parts):
            if not hasattr(value, name):
                raise RuntimeError(f"Interpreter: the module has no {'.'.join(parts[:k + 1])}, which the graph needs")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n):
        """(args, kwargs) of a Node with values in the place of Nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Arguments of Node n with values in the place of Nodes."""
        def load(node):
            if node not in self.env:
                raise RuntimeError(f"Interpreter: {n} uses {node}, which has no value yet; see graph.lint()")
            return self.env[node]

        return map_arg(args, load)


def _note(error, node):
    note = f"  while running: {node.format_node()}"
    trace = node.stack_trace
    note += f"\n  recorded from:\n    {trace.strip()}" if trace else ""
    if not any(text.startswith("  while running: ") for text in getattr(error, "__notes__", ())):
        error.add_note(note)


def _last_uses(graph):
    """{Node: Nodes whose values are not needed after it}."""
    seen, found = set(), {}
    for node in reversed(graph.nodes):
        for used in node.all_input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(node, []).append(used)
    return found


class _TransformerTracer(Tracer):
    """Adds to a graph that exists; submodules are looked up in the module that is transformed."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.tensor_attrs, self._kept = {}, []

    def is_leaf_module(self, m, module_qualified_name):
        return True


class Transformer(Interpreter):
    """An Interpreter whose methods work on Proxies, so that running it makes a new GraphModule.

    >>> import flambeau
    >>> class Swapped(flambeau.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(flambeau.exp if target is flambeau.neg else target, args, kwargs)
    >>> gm = flambeau.fx.symbolic_trace(lambda x: flambeau.neg(x))
    >>> Swapped(gm).transform()(flambeau.tensor(0.0))
    tensor(1.)
    """

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target, args, kwargs):
        """An argument of the new graph."""
        default = args[0] if args else inspect.Signature.empty
        node = self.new_graph.placeholder(target) if default is inspect.Signature.empty else \
            self.new_graph.placeholder(target, default_value=default)
        return Proxy(node, self.tracer)

    def get_attr(self, target, args, kwargs):
        """An attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        """The call of a submodule, in the new graph."""
        if not isinstance(target, str):
            raise AssertionError(f"call_module: target must be a submodule's name, got {shown(target)}")
        return self.tracer.call_module(self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs)

    def call_function(self, target, args, kwargs):
        """The call of a function, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """The new GraphModule."""
        with _traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None or any(n.op == "output" for n in self.graph.nodes):
            old = self.graph.output_node()
            made = self.new_graph.output(map_aggregate(result, lambda x: x.node if isinstance(x, Proxy) else x))
            made.meta, made.type = dict(old.meta), old.type
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)

    def run_node(self, n):
        """The Proxy of what stands for the Node in the new graph, with its type."""
        proxy = super().run_node(n)
        if isinstance(proxy, Proxy) and proxy.node.type is None:
            proxy.node.type = n.type
        if isinstance(proxy, Proxy) and n.meta.get("is_wrapped"):
            proxy.node.meta.setdefault("is_wrapped", True)
        return proxy
