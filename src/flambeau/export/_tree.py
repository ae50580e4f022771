"""The steps of an exported program as a tree of graphs, one for each call of a module.

The steps of one call, which stand side by side, become the graph of that module: its arguments are what it takes from
outside, its results what is used there.
"""

import operator

from .. import _C
from .._shown import shown
from .._symbolic.expressions import expression
from .._symbolic.numbers import SymInt
from ..fx import Graph, GraphModule, Node
from ..fx._pytree_codegen import _PyTreeInfo
from ..nn import Module
from ..ops.namespaces import READINGS
from ..utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten
from ._call_codegen import CallCodeGen
from .graph_signature import ConstantArgument


class InterpreterModule(GraphModule):
    """A module of an unflattened program: its graph, and the tensors and modules that it had."""


def complete(made, root):
    """Gives a GraphModule what its root has and its graph does not name; where the graph names the inside of a module
    alone, the module itself."""
    for table in ("_parameters", "_buffers"):
        for name, value in vars(root)[table].items():
            vars(made)[table].setdefault(name, value)
    made._modules.update(root._modules)
    made._non_persistent_buffers_set |= root._non_persistent_buffers_set


def _calls_of(node):
    """The paths of the calls that a step is part of, outermost first, without the program's own."""
    stack = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return stack[1:] if stack and stack[0] == "" else stack


class Tree:
    """Makes modules of the graph of a program whose weights are attributes."""

    def __init__(self, flat, signatures):
        self.flat, self.signatures = flat, signatures
        _name_what_is_written(flat.graph)
        self.steps = [n for n in flat.graph.nodes if n.op not in ("placeholder", "output")]
        self.made = {}  # name of a module: [(path of a call, its InterpreterModule)]

    def owner(self, name):
        """The module that has been at this name: of plain Modules, which hold the tensors."""
        found = self.flat
        for part in name.split(".") if name else ():
            if part not in found._modules:
                found.add_module(part, Module())
            found = found._modules[part]
        return found

    def root(self):
        """The module of the whole."""
        graph = self.flat.graph
        outputs = graph.output_node().args[0]
        part = _Part(self, "", self.steps, 0)
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        made = part.build(placeholders, outputs)
        made.set_codegen(graph._codegen)
        root = InterpreterModule(self.owner(""), made, "InterpreterModule")
        complete(root, self.owner(""))
        self.alias(root)
        return root

    def alias(self, root):
        """A module that was there under several names is so again: one that holds the tensors of another."""
        known = {_tensors(m): m for calls in self.made.values() for _, m in calls if _tensors(m)}
        for parent in list(root.modules()):
            for name, child in parent._modules.items():
                if type(child) is Module and _tensors(child) in known:
                    parent._modules[name] = known[_tensors(child)]

    def module(self, path, graph):
        """(the name of the module for a call, itself): the one of an earlier call where both do the same."""
        name = path.partition("@")[0]
        for known, other in self.made.get(name, []):
            if _same(other.graph, graph):
                return known
        owner = self.owner(name)
        made = InterpreterModule(owner, graph, "InterpreterModule")
        complete(made, owner)
        self.made.setdefault(name, []).append((path, made))
        head, _, last = path.rpartition(".") if "@" not in path else _parted(path)
        self.owner(head)._modules[last] = made
        if path == name:
            _rehang(self, name, made)
        return path


def _tensors(module):
    """Which tensors a module holds, by their names."""
    return tuple((name, id(t)) for name, t in (*module.named_parameters(remove_duplicate=False),
                                               *module.named_buffers(remove_duplicate=False)))


def _parted(path):
    """("a.b", ".", "c@1") of "a.b.c@1"."""
    name, _, count = path.partition("@")
    head, dot, last = name.rpartition(".")
    return head, dot, f"{last}@{count}"


def _rehang(tree, name, made):
    """Modules inside one that is replaced are the replacement's from now on."""
    made._modules.update({key: value for key, value in tree.owner(name)._modules.items() if key not in made._modules})


def _name_what_is_written(graph):
    """What a write in place gives is what it has written to: whoever reads it needs no value of the step's."""
    for node in graph.nodes:
        if node.op == "call_function" and getattr(node.target, "is_inplace", False):
            node.replace_all_uses_with(node.args[0])


class _Part:
    """The steps of one call."""

    def __init__(self, tree, name, steps, depth):
        self.tree, self.name, self.steps, self.depth = tree, name, steps, depth
        self.inside = set(steps)
        self.graph, self.places = Graph(), {}

    # ---- what it is made of ----

    def own(self, node):
        """The name inside the module of a tensor or graph that it holds; None for what is another's."""
        prefix = f"{self.name}." if self.name else ""
        held = _held(self.tree.flat, node.target)
        if not isinstance(held, _C.Tensor):
            return node.target
        return node.target[len(prefix):] if node.target.startswith(prefix) else None

    def needs(self):
        """The values from outside, in the order of their use."""
        found = {}
        for step in self.steps:
            for used in step.all_input_nodes:
                if used in self.inside:
                    continue
                if used.op != "get_attr" or self.own(used) is None:
                    found[used] = None
        return list(found)

    def results(self):
        """The values that are used outside."""
        return [step for step in self.steps if any(user not in self.inside for user in step.users)]

    def build(self, inputs, outputs):
        """The graph that takes these values and gives a tree of values."""
        for node in inputs:
            made = self.graph.placeholder(node.name)
            made.meta.update(node.meta)
            self.places.setdefault(node, made)
        k = 0
        while k < len(self.steps):
            path = self.call_at(k)
            if path is None:
                self.copy(self.steps[k])
                k += 1
                continue
            end = k
            while end < len(self.steps) and self.call_at(end) == path:
                end += 1
            self.call(path, self.steps[k:end])
            k = end
        self.graph.output(_mapped(outputs, self.place))
        return self.graph

    def call_at(self, k):
        """The call of a module of this one that a step is part of, or None."""
        step = self.steps[k]
        if step.op == "get_attr":
            return None
        calls = _calls_of(step)
        path = calls[self.depth] if len(calls) > self.depth else None
        if path is None:
            return None
        inside = path.partition("@")[0]
        return path if not self.name or inside.startswith(f"{self.name}.") else None

    # ---- its steps ----

    def place(self, node):
        """The Node of this graph for a value."""
        if node not in self.places and node.op == "get_attr":
            self.places[node] = self.attribute(node)
        if node not in self.places:
            self.places[node] = self.again(node)
        return self.places[node]

    def attribute(self, node):
        target = self.own(node)
        held = _held(self.tree.flat, node.target)
        if not isinstance(held, _C.Tensor):
            setattr(self.tree.owner(self.name), target, held)
        made = self.graph.get_attr(target) if target is not None else self.graph.placeholder(node.name)
        made.meta.update(node.meta)
        return made

    def copy(self, node):
        """A step of the module itself."""
        if node.op != "get_attr":
            self.places[node] = self.graph.node_copy(node, self.place)

    def again(self, node):
        """A size that is read outside, read from what the module has."""
        value = node.meta.get("val")
        if isinstance(value, SymInt):
            for known, made in list(self.places.items()):
                sizes = getattr(known.meta.get("val"), "symbolic_sizes", ())
                if value.node.expr in map(expression, sizes):
                    dim = [expression(s) for s in sizes].index(value.node.expr)
                    found = self.graph.call_function(READINGS["size"], (made, dim))
                    found.meta.update(node.meta)
                    return found
        if isinstance(value, SymInt) and node.op == "call_function":
            return self.graph.node_copy(node, self.place)
        raise NotImplementedError(f"unflatten: the module {shown(self.name)}, whose form is to be kept, uses the value "
                                  f"{node.name}, which is none of its arguments; leave it out of "
                                  "preserve_module_call_signature")

    def call(self, path, steps):
        """The steps of a module inside as one call."""
        name = path.partition("@")[0]
        part = _Part(self.tree, name, steps, self.depth + 1)
        signature = self.tree.signatures.get(path)
        if signature is None:
            self.plain_call(path, part)
        else:
            self.kept_call(path, part, signature)

    def target(self, path):
        """The name inside of this module."""
        return path[len(self.name) + 1:] if self.name else path

    def plain_call(self, path, part):
        """A call with the values that the steps need, and the tuple of those that others need."""
        inputs, results = part.needs(), part.results()
        graph = part.build(inputs, results[0] if len(results) == 1 else tuple(results))
        target = self.target(self.tree.module(path, graph))
        made = self.graph.call_module(target, tuple(map(self.place, inputs)))
        if len(results) == 1:
            self.places[results[0]] = made
            made.meta["val"] = results[0].meta.get("val")
            return
        for k, node in enumerate(results):
            self.places[node] = self.taken(made, k, node)

    def taken(self, made, key, node):
        found = self.graph.call_function(operator.getitem, (made, key))
        found.meta.update(node.meta)
        return found

    def kept_call(self, path, part, signature):
        """A call in the form that it had."""
        by_name = {n.name: n for n in self.tree.flat.graph.nodes}
        inputs = [_value(arg, by_name) for arg in signature.inputs]
        outputs = [_value(arg, by_name) for arg in signature.outputs]
        leaves = [x if isinstance(x, Node) else None for x in inputs]
        graph = part.build_kept(leaves, tuple(outputs), signature)
        target = self.target(self.tree.module(path, graph))
        args, kwargs = tree_unflatten([self.place(x) if isinstance(x, Node) else x for x in inputs], signature.in_spec)
        made = self.graph.call_module(target, args, kwargs)
        tree = tree_unflatten(list(range(len(outputs))), signature.out_spec)
        for keys, k in tree_flatten_with_path(tree)[0]:
            if isinstance(outputs[k], Node) and outputs[k] not in self.places:
                found = made
                for key in keys:
                    found = self.taken(found, _key(key), outputs[k])
                self.places[outputs[k]] = found
        missing = [n.name for n in part.results() if n not in self.places and not isinstance(n.meta.get("val"), SymInt)]
        if missing:
            raise NotImplementedError(f"unflatten: {shown(missing)} of the module {shown(path)}, whose form is to be "
                                      "kept, are used outside, and are none of its results; leave it out of "
                                      "preserve_module_call_signature")

    def build_kept(self, leaves, outputs, signature):
        """The graph with a signature of its own."""
        inputs = [x if x is not None else _Unused(f"arg{k}") for k, x in enumerate(leaves)]
        graph = self.build(inputs, outputs)
        args, _ = tree_unflatten(list(leaves), signature.in_spec)
        names = signature.forward_arg_names or [f"arg{k}" for k in range(len(args))]
        names = [*names[:len(args)], *(signature.in_spec.children_specs[1].context or [])]
        graph.set_codegen(CallCodeGen(_PyTreeInfo(names, signature.in_spec, signature.out_spec)))
        return graph


class _Unused:
    """An argument that is a plain value: the graph has it already."""

    def __init__(self, name):
        self.name, self.meta = name, {}


def _value(arg, nodes):
    return arg.value if isinstance(arg, ConstantArgument) else nodes[arg.name]


def _key(key):
    return getattr(key, "idx", getattr(key, "key", getattr(key, "name", None)))


def _held(module, target):
    for part in target.split("."):
        module = getattr(module, part)
    return module


def _mapped(tree, place):
    leaves, spec = tree_flatten(tree, is_leaf=lambda x: x is None)
    return tree_unflatten([place(x) if isinstance(x, Node) else x for x in leaves], spec)


def _same(a, b):
    """Whether two graphs do the same."""
    places = {}

    def like(x, y):
        if isinstance(x, Node) and isinstance(y, Node):
            return places.get(x) is y
        if type(x) is not type(y):
            return False
        if isinstance(x, (tuple, list)):
            return len(x) == len(y) and all(map(like, x, y))
        if isinstance(x, dict):
            return x.keys() == y.keys() and all(like(x[key], y[key]) for key in x)
        return x == y

    if len(a.nodes) != len(b.nodes):
        return False
    for x, y in zip(a.nodes, b.nodes, strict=True):
        known = x.op == "placeholder" or x.target == y.target
        if x.op != y.op or not known or not like(x.args, y.args) or not like(x.kwargs, y.kwargs):
            return False
        places[x] = y
    return True
