"""`split_module`: one submodule per number that a function gives each Node, and a module that calls them in order."""

import operator

from ..._shown import shown
from ..graph import Graph
from ..graph_module import GraphModule, _attribute
from ..node import map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """One part: its Nodes, what it takes and gives, on which parts it waits, and its graph."""

    def __init__(self, name):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names = []
        self.inputs, self.outputs = {}, {}
        self.dependencies, self.dependents = {}, {}
        self.graph = Graph()
        self.environment = {}
        self.targets = {}

    def __repr__(self):
        return (f"Partition {self.name}: Nodes {self.node_names}, takes {list(self.inputs)}, gives "
                f"{list(self.outputs)}, after {list(self.dependencies)}, before {list(self.dependents)}")


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False,
                 keep_original_node_name=False, keep_original_input_name=True, *, partition_affix=None,
                 tuple_return=False):
    """A GraphModule with a submodule for every value of split_callback(node); the parts are called in an order in which
    each comes after those that it uses.

    m, root_m                 the GraphModule, and the module that has its attributes
    qualname_map              a dict that is filled with {dotted name in the result: dotted name in m}
    keep_original_order       the parts come in the order of their first Nodes; RuntimeError where that cannot be
    keep_original_node_name   Nodes of the parts have the names they had
    keep_original_input_name  so have the parts' arguments; otherwise they are called arg_0, arg_1 …
    partition_affix           submodules are called submod_AFFIX_0 …
    tuple_return              parts give tuples even for one value

    >>> import flambeau
    >>> from flambeau.fx.passes.split_module import split_module
    >>> gm = flambeau.fx.symbolic_trace(lambda x: (x + 1).relu() * 2)
    >>> parts = split_module(gm, gm, lambda node: 0 if node.name == "add" else 1)
    >>> [str(node) for node in parts.graph.nodes], parts(flambeau.tensor(-3.0))
    (['x', 'submod_0', 'submod_1', 'output'], tensor(0.))
    """
    splitter = _Splitter(m, root_m, split_callback, keep_original_node_name, keep_original_input_name)
    splitter.assign(partition_affix)
    splitter.connect()
    order = splitter.order(keep_original_order)
    return splitter.joined(order, qualname_map, tuple_return)


class _Splitter:
    def __init__(self, m, root_m, callback, keep_names, keep_input_names):
        self.m, self.root, self.callback = m, root_m, callback
        self.keep_names, self.keep_input_names = keep_names, keep_input_names
        self.parts, self.part_of = {}, {}

    def assign(self, affix):
        """Each Node that calls something goes into a part."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(self.callback(node))
            part = self.parts.get(name)
            if part is None:
                part = self.parts[name] = Partition(name)
                part.submod_name = f"submod_{affix}_{name}" if affix else f"submod_{name}"
            part.node_names.append(node.name)
            self.part_of[node] = part

    def connect(self):
        """What flows between parts: each use of a Node of another part, or of an argument."""
        for node, part in self.part_of.items():
            for used in node.all_input_nodes:
                source = self.part_of.get(used)
                if source is part or used.op == "get_attr":
                    continue
                part.inputs.setdefault(used)
                if source is not None:
                    source.outputs.setdefault(used)
                    part.dependencies.setdefault(source.name)
                    source.dependents.setdefault(part.name)
        for used in self.m.graph.output_node().all_input_nodes:
            if used in self.part_of:
                self.part_of[used].outputs.setdefault(used)

    def order(self, keep_original):
        """The parts so that each comes after those it uses."""
        done, order = set(), []
        waiting = list(self.parts.values())
        while waiting:
            ready = [p for p in waiting if set(p.dependencies) <= done]
            if not ready or (keep_original and ready[0] is not waiting[0]):
                stuck = waiting[0]
                used = shown(list(stuck.dependencies))
                raise RuntimeError(f"split_module: the part {shown(stuck.name)} uses {used}, " + (
                    "which come later in the original order" if ready else
                    "and they use it; let split_callback put them together"))
            part = ready[0]
            order.append(part)
            done.add(part.name)
            waiting.remove(part)
        return order

    def _fill(self, part, tuple_return):
        """The graph of a part."""
        for k, used in enumerate(part.inputs):
            name = used.name if self.keep_input_names else f"arg_{k}"
            node = part.graph.placeholder(name, used.type)
            node.meta = dict(used.meta)
            part.environment[used] = node

        def inside(used):
            if used not in part.environment:  # an attribute, read where it is used
                part.targets[used.target] = _attribute(self.root, used.target)
                part.environment[used] = part.graph.node_copy(used)
            return part.environment[used]

        for node, its in self.part_of.items():
            if its is not part:
                continue
            if node.op == "call_module":
                part.targets[node.target] = _attribute(self.root, node.target)
            copied = part.graph.create_node(node.op, node.target, map_arg(node.args, inside),
                                            map_arg(node.kwargs, inside), node.name if self.keep_names else None,
                                            node.type)
            copied.meta = dict(node.meta)
            part.environment[node] = copied
        values = tuple(part.environment[node] for node in part.outputs)
        single = len(values) == 1 and not tuple_return
        part.graph.output(values[0] if single else values)

    def joined(self, order, qualname_map, tuple_return):
        """The module that calls the parts."""
        graph, known, attributes = Graph(), {}, {}
        for node in self.m.graph.nodes:
            if node.op == "placeholder":
                known[node] = graph.node_copy(node)

        def outside(node):
            if node not in known:
                attributes[node.target] = _attribute(self.root, node.target)
                known[node] = graph.node_copy(node)
            return known[node]

        for part in order:
            self._fill(part, tuple_return)
            attributes[part.submod_name] = GraphModule(part.targets, part.graph)
            if qualname_map is not None:
                qualname_map.update({f"{part.submod_name}.{name}": name for name in part.targets})
            call = graph.call_module(part.submod_name, tuple(outside(used) for used in part.inputs))
            if len(part.outputs) == 1 and not tuple_return:
                known[next(iter(part.outputs))] = call
                continue
            for k, node in enumerate(part.outputs):
                known[node] = graph.call_function(operator.getitem, (call, k))
        output = self.m.graph.output_node()
        graph.output(map_arg(output.args[0], outside), output.type).meta = dict(output.meta)
        return GraphModule(attributes, graph)
