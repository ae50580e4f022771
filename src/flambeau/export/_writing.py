"""A graph as data: its inputs, steps, outputs, and what is known of each value."""

import operator

import flambeau

from .. import _C, control_flow
from .._aten.numbers import is_layout
from .._aten.overloads import value_of
from .._shown import class_name, shown
from .._symbolic.expressions import constant
from .._symbolic.numbers import SymBool, SymFloat, SymInt
from ..fx import GraphModule, Node
from ..ops.namespaces import READINGS
from ..utils import _pytree
from ._calls import write_call
from ._checks import lone
from ._expressions import Names, written
from ._higher_order import HigherOrder
from ._metadata import write_metadata
from ._schema import KEYWORD, POSITIONAL, device_data, format_number, layout_number, number_of

_SYMBOLIC = {SymInt: ("as_sym_int", "sym_int_values"), SymFloat: ("as_sym_float", "sym_float_values"),
             SymBool: ("as_sym_bool", "sym_bool_values")}
_FACTS = ((_C.dtype, "as_scalar_type", number_of), (flambeau.memory_format, "as_memory_format", format_number),
          (_C.device, "as_device", device_data))
_CONTROL = (control_flow.cond, control_flow.while_loop, control_flow.scan, control_flow.map)


def number(x):
    """A float in JSON, which has no infinities."""
    return x if x - x == 0 else "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"


def floats_of(graph):
    """The symbols of a graph that stand for the values of floats."""
    values = [node.meta.get("val") for node in graph.nodes if node.target is READINGS["item"]]
    return {lone(v.node.expr.args[0]) for v in values if isinstance(v, SymFloat)} - {None}


def _refuse(x):
    raise NotImplementedError(f"export.save: an argument in the graph is a {class_name(type(x))}, which no file holds")


class Lifted:
    """Tensors that graphs inside hold: in a file they are inputs of the program, and arguments of the steps."""

    def __init__(self):
        self.found = {}  # name: (name in the module, tensor)


class GraphWriter:
    """Writes one graph; graphs inside it are written by others, which share names, sizes and lifted tensors.

    single      a result that is no tuple stays one: of the question that a loop asks
    """

    def __init__(self, module, env, lifted, path="", names=None, single=False):
        self.module, self.env, self.lifted, self.path, self.single = module, env, lifted, path, single
        self.names = names or Names(env, floats_of(module.graph))
        self.data = {"inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {},
                     "sym_bool_values": {}, "is_single_tensor_return": False, "custom_obj_values": {},
                     "sym_float_values": {}}
        self.leaf_names = {}  # (node, path into its result): name
        self.own = []         # names of tensors that this graph holds

    # ---- the whole ----

    def write(self, inputs=None):
        """The data; inputs: what the signature says of each placeholder, for those that are no tensors."""
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.data["inputs"].append(self.placeholder(node, inputs))
            elif node.op == "output":
                self.output(node.args[0])
            elif node.op == "call_function" and node.target is not operator.getitem:
                self.step(node)
            elif node.op not in ("get_attr", "call_function"):
                raise NotImplementedError(f"export.save: the graph has a {node.op} of {shown(node.target)}; exported "
                                          "graphs call operators alone")
        return self.data

    def placeholder(self, node, inputs):
        value = node.meta.get("val")
        if isinstance(value, (_C.Tensor, *_SYMBOLIC)):
            return self.result(node.name, value)
        return self.plain(value if inputs is None else inputs[node.name])

    def output(self, tree):
        """The leaves of what a graph returns."""
        self.data["is_single_tensor_return"] = isinstance(tree, Node) and self.single
        self.data["outputs"] = [self.value(x) for x in _pytree.tree_leaves(tree, is_leaf=lambda x: x is None)]

    def result(self, name, value):
        """A value that a step or input makes, under a name."""
        if isinstance(value, _C.Tensor):
            self.data["tensor_values"][name] = self.meta(value)
            return {"as_tensor": {"name": name}}
        for kind, (word, table) in _SYMBOLIC.items():
            if isinstance(value, kind):
                self.data[table][name] = self.symbolic(value)
                return {word: {"as_name": name}}
        if value is None:
            return {"as_none": True}
        return self.plain(value)

    # ---- what is known of values ----

    def expression(self, expr):
        """A size."""
        expr = self.env.replace(expr)
        if expr.is_number:
            return {"as_int": expr.number}
        hint = self.env.hint_of(expr)
        return {"as_expr": {"expr_str": written(expr, self.names), "hint": None if hint is None else {"as_int": hint}}}

    def symbolic(self, x):
        expr, hint = x.node.expr, x.node.hint
        if isinstance(expr, (bool, int, float)) or getattr(expr, "is_number", False):
            expr = x.node._expr  # settled later on: the step that makes it is still there
        kind = "as_int" if isinstance(x, SymInt) else "as_float" if isinstance(x, SymFloat) else "as_bool"
        if isinstance(expr, (bool, int, float)):
            return {kind: expr}
        return {"as_expr": {"expr_str": written(expr, self.names), "hint": None if hint is None else {kind: hint}}}

    def meta(self, t):
        """What is known of a tensor."""
        sizes = getattr(t, "symbolic_sizes", None)
        plain = t.layout is _C.strided
        if sizes is None:
            sizes, strides = map(constant, t.shape), map(constant, t.stride() if plain else ())
            offset = constant(t.storage_offset() if plain else 0)
        else:
            strides, offset = t.symbolic_strides, t.symbolic_offset
        return {"dtype": number_of(t.dtype), "sizes": [self.expression(e) for e in sizes],
                "requires_grad": t.requires_grad, "device": device_data(t.device),
                "strides": [self.expression(e) for e in strides], "storage_offset": self.expression(offset),
                "layout": layout_number(t.layout)}

    # ---- arguments ----

    def value(self, x):
        """An argument, whatever its kind is."""
        if isinstance(x, Node):
            return self.node(x)
        if isinstance(x, (tuple, list)):
            return self.items(x)
        if isinstance(x, dict):
            return {"as_string_to_argument": {str(key): self.value(v) for key, v in x.items()}}
        return self.plain(x)

    def plain(self, x):
        if x is None:
            return {"as_none": True}
        for kind, word in ((bool, "as_bool"), (int, "as_int"), (str, "as_string")):
            if isinstance(x, kind):
                return {word: x}
        if isinstance(x, float):
            return {"as_float": number(x)}
        if isinstance(x, complex):
            return {"as_complex": {"real": number(x.real), "imag": number(x.imag)}}
        if is_layout(x):
            return {"as_layout": layout_number(x)}
        for kind, word, of in _FACTS:
            if isinstance(x, kind):
                return {word: of(x)}
        return _refuse(x)

    def node(self, node):
        if node.op == "get_attr":
            return self.attribute(node)
        value = node.meta.get("val")
        for kind, (word, _) in _SYMBOLIC.items():
            if isinstance(value, kind):
                return {word: {"as_name": self.name_of(node)}}
        if not isinstance(value, _C.Tensor):
            if value is None or not isinstance(value, (bool, int, float, str)):
                raise NotImplementedError(f"export.save: the step {node.name} uses a value of which the graph knows "
                                          f"nothing ({class_name(type(value))})")
            return self.plain(value)
        return {"as_tensor": {"name": self.name_of(node)}}

    def name_of(self, node):
        """The name of a value: items of results go by the names that their step gives them."""
        path = []
        while node.op == "call_function" and node.target is operator.getitem and isinstance(node.args[0], Node):
            path.insert(0, node.args[1])
            node = node.args[0]
        return self.leaf_names[node, tuple(path)] if path else self.leaf_names.get((node, ()), node.name)

    def items(self, x):
        """A list."""
        values = list(map(value_of, x))
        numbers = any(isinstance(v, (*_SYMBOLIC,)) for v in values)
        tensors = any(isinstance(v, _C.Tensor) for v in values)
        if not values:
            return {"as_ints": []}
        if tensors or all(v is None for v in values):
            if any(v is None for v in values):
                return {"as_optional_tensors": [self.value(v) for v in x]}
            if all(isinstance(v, _C.Tensor) for v in values):
                return {"as_tensors": [{"name": self.node(n)["as_tensor"]["name"]} for n in x]}
        elif numbers:
            return self.open_numbers(x, values)
        for kinds, word in ((bool, "as_bools"), (int, "as_ints"), ((int, float), "as_floats"), (str, "as_strings")):
            if all(isinstance(v, kinds) and (kinds is bool or not isinstance(v, bool)) for v in values):
                return {word: [number(float(v)) if word == "as_floats" else v for v in values]}
        if all(isinstance(v, (tuple, list)) for v in values):
            if all(isinstance(value_of(n), _C.Tensor) for v in x for n in v):
                return {"as_nested_tensors": [self.items(v).get("as_tensors", []) for v in x]}
            return {"as_int_lists": [list(v) for v in values]}
        return _refuse(x)

    def open_numbers(self, x, values):
        word = "as_sym_floats" if any(isinstance(v, (float, SymFloat)) for v in values) else "as_sym_ints"
        plain = "as_float" if word == "as_sym_floats" else "as_int"
        return {word: [{"as_name": self.name_of(n)} if isinstance(n, Node) and not isinstance(v, (int, float))
                       else {plain: v} for n, v in zip(x, values)]}

    def of_kind(self, kind, x):
        """An argument where an operator takes this kind."""
        value = value_of(x)
        if kind[0] == "f" and isinstance(x, int) and not isinstance(x, bool):
            x = float(x)
        if "[" in kind and not isinstance(value, (tuple, list, type(None))):
            x = [x] * int(kind.partition("[")[2].rstrip("]?") or 1)
        if "[" in kind and isinstance(x, (tuple, list)):
            if not x:
                return {{"T": "as_tensors", "f": "as_floats", "b": "as_bools"}.get(kind[0], "as_ints"): []}
            if kind[0] == "f":
                x = [float(v) if isinstance(v, int) else v for v in x]
        if kind[0] == "v" and isinstance(x, str):
            x = _C.device(x)
        return self.value(x)

    # ---- graphs inside ----

    def attribute(self, node):
        """A graph, or a tensor that a graph holds."""
        held = getattr(self.module, node.target)
        if isinstance(held, _C.Tensor):
            name = self.lift(node.target, held)
            self.data["tensor_values"].setdefault(name, self.meta(held))
            return {"as_tensor": {"name": name}}
        body = held if isinstance(held, GraphModule) else held.body
        asks = any(user.target is control_flow.while_loop and user.args[0] is node for user in node.users)
        writer = GraphWriter(body, self.env, self.lifted, f"{self.path}{node.target}.", self.names, asks)
        return {"as_graph": {"name": node.target, "graph": writer.write()}, "writer": writer}

    def lift(self, target, held):
        path = f"{self.path}{target}"
        name = f"c_{path.replace('.', '_')}"
        self.lifted.found.setdefault(name, (path, held))
        if name not in self.own:
            self.own.append(name)
        return name

    # ---- steps ----

    def step(self, node):
        if node.target in _CONTROL or isinstance(node.target, HigherOrder):
            self.higher_order(node)
            return
        call = write_call(node)
        inputs = [{"name": a.name, "arg": self.of_kind(a.kind, value), "kind": KEYWORD if a.by_name else POSITIONAL}
                  for a, value in call.arguments]
        value = node.meta.get("val")
        name = node.name
        if call.item:
            name, outputs = f"{name}_all", [self.result(node.name, value), self.result(f"{node.name}_unused_1", value)]
        elif call.lists:
            outputs = [{"as_tensors": [{"name": self.leaf(node, (k,), v)["as_tensor"]["name"]}
                                       for k, v in enumerate(value)]}]
        elif isinstance(value, (tuple, list)):
            outputs = [self.leaf(node, (k,), v) for k, v in enumerate(value)]
        else:
            outputs = [] if value is None else [self.result(node.name, value)]
        self.add(node, name, call.target, inputs, outputs, None)

    def add(self, node, name, target, inputs, outputs, single):
        self.data["nodes"].append({"target": target, "inputs": inputs, "outputs": outputs,
                                   "metadata": write_metadata(node), "is_hop_single_tensor_return": single,
                                   "name": name})

    def leaf(self, node, path, value):
        """One of several results: by the name of the Node that takes it out."""
        if (node, path) not in self.leaf_names:
            user = _taker(node, path)
            self.leaf_names[node, path] = user.name if user is not None else \
                f"{node.name}_unused_{'_'.join(map(str, path))}"
        return self.result(self.leaf_names[node, path], value)

    def higher_order(self, node):
        """A step with graphs: what these hold becomes one more argument of all of them."""
        args = [self.value(a) for a in _flat_arguments(node)]
        writers = [a.pop("writer") for a in args if "writer" in a]
        shared = list(dict.fromkeys(name for w in writers for name in w.own))
        for writer in writers:
            writer.take(shared)
        if shared:
            self.pass_on(node, args, shared)
        paths = _paths(node.meta.get("val"))
        outputs = [self.leaf(node, path, value) for path, value in paths]
        name = node.name if paths != [((), node.meta.get("val"))] else f"{node.name}_all"
        inputs = [{"name": "", "arg": a, "kind": POSITIONAL} for a in args]
        self.add(node, name, f"torch.ops.higher_order.{_word(node.target)}", inputs, outputs, False)

    def take(self, names):
        """Makes tensors inputs, which a graph around passes on."""
        for name in names:
            self.data["inputs"].append({"as_tensor": {"name": name}})
            self.data["tensor_values"].setdefault(name, self.meta(self.lifted.found[name][1]))

    def pass_on(self, node, args, names):
        """Adds lifted tensors to the last list of a step's arguments."""
        for name in names:
            if self.path and name not in self.own:
                self.own.append(name)
        if isinstance(node.target, HigherOrder) and node.target.op_name not in ("scan", "map_impl"):
            args.extend({"as_tensor": {"name": name}} for name in names)
            return
        given = args[-1].get("as_tensors", [])
        if set(args[-1]) - {"as_tensors"} and args[-1] != {"as_ints": []}:
            raise NotImplementedError(f"export.save: the step {node.name} has numbers among its operands, and graphs "
                                      "that hold tensors; make these parameters or buffers of the module")
        args[-1] = {"as_tensors": [*given, *({"name": name} for name in names)]}


def _taker(node, path):
    """The getitem Node at a place of a result."""
    for key in path:
        node = next((u for u in node.users if u.op == "call_function" and u.target is operator.getitem
                     and u.args == (node, key)), None)
        if node is None:
            return None
    return node


def _paths(value, path=()):
    """(path, value) of each leaf of a result."""
    if isinstance(value, (tuple, list)):
        return [found for k, v in enumerate(value) for found in _paths(v, (*path, k))]
    if isinstance(value, dict):
        return [found for k, v in value.items() for found in _paths(v, (*path, k))]
    return [(path, value)]


def _word(target):
    if isinstance(target, HigherOrder):
        return target.op_name
    return "map_impl" if target is control_flow.map else target.__name__


def _flat_arguments(node):
    """Arguments in the form of files: lists of leaves in the place of trees."""
    args, kwargs = node.args, node.kwargs
    leaves = _pytree.tree_leaves
    if node.target is control_flow.scan:
        if kwargs.get("dim", 0) != 0 or kwargs.get("reverse"):
            raise NotImplementedError(f"export.save: {node.name} is a scan along dim={kwargs.get('dim', 0)}, "
                                      f"reverse={kwargs.get('reverse')}; files have those along dimension 0 forwards: "
                                      "use movedim and flip")
        return [args[0], leaves(args[1]), leaves(args[2]), list(kwargs.get("additional_inputs", ()))]
    if node.target is control_flow.map:
        return [args[0], leaves(args[1]), list(args[2:])]
    if isinstance(node.target, HigherOrder) and kwargs:
        raise NotImplementedError(f"export.save: {node.name} is called with arguments by name, which files have no "
                                  "form for")
    return list(args)
