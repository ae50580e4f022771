"""A graph from data: the steps of a program in a file, with what is known of each value."""

import operator
import re

import flambeau

from .. import _C
from .._shown import shown
from .._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from .._subclasses.symbolic_tensor import SymbolicTensor
from .._symbolic.expressions import Poly, Symbol, constant
from .._symbolic.numbers import SymBool, SymFloat, SymNode
from .._symbolic.shape_env import ShapeEnv
from .._symbolic.statements import INFINITE
from ..fx import Graph, GraphModule
from ..ops import OPS
from . import _expressions
from ._calls import Unknown, read_target
from ._metadata import read_metadata
from ._schema import KEYWORD, as_name, dtype_of, format_of, kind, layout_of, read_device

_SIZE = re.compile(r"([su])(\d+)")
_NUMBER = re.compile(r"\d{1,9}$")
_LONE = re.compile(r"Symbol\('(\w+)'[^()]*\)")


class Sizes:
    """The symbols of a program: by their names in the file, with ranges and examples."""

    def __init__(self, ranges, graph):
        self.env = ShapeEnv(duck_shape=False)
        self.ranges, self.found, self.by_name = ranges, {}, {}
        self.hints = dict(_hints(graph))
        self.next = 1 + max([int(m[2]) for m in map(_SIZE.fullmatch, [*ranges, *self.hints]) if m], default=-1)

    def symbol(self, name):
        """(the Symbol of a name, whether it stands for the value of a float)."""
        if name not in self.by_name:
            backed = not name.startswith(("u", "zu"))
            symbol = self.by_name[name] = Symbol(self.known(name, "s" if backed else "u"))
            low, high = self.ranges.get(name, (2 if backed else -INFINITE, INFINITE))
            example = self.hints.get(name, max(low, 2) if low <= max(low, 2) <= high else low) if backed else None
            self.env.adopt(symbol, (low, high), example)
        return self.by_name[name], name.startswith("z")

    def known(self, name, letter):
        """What a symbol is called here: a letter and a number, those of its name where they are free."""
        if _SIZE.fullmatch(name):
            return name
        wanted = letter + (_NUMBER.search(name) or ["x"])[0]
        if _SIZE.fullmatch(wanted) and wanted not in self.ranges and wanted not in self.by_name:
            return wanted
        self.next += 1
        return f"{letter}{self.next - 1}"

    def read(self, text):
        """The expression of a text."""
        return _expressions.read(text, self.symbol)

    def size(self, data):
        """A whole number, or an expression of sizes."""
        word, content = kind(data)
        found = self.read(content["expr_str"]) if word == "as_expr" else content
        if isinstance(found, int) and not isinstance(found, bool):
            return constant(found)
        if not isinstance(found, Poly):
            raise ValueError(f"export.load: {shown(content)} is no size")
        return found

    def number(self, table, data):
        """An open int, float or truth."""
        word, content = kind(data)
        if word != "as_expr":
            return content
        if table == "sym_int_values":
            return self.env.create_symintnode(self.size(data))
        found = self.read(content["expr_str"])
        if isinstance(found, (bool, float)):
            return found
        return SymFloat(SymNode(found, self.env, float)) if table == "sym_float_values" else \
            SymBool(SymNode(found, self.env, bool))


def _hints(graph):
    """(name, example) of the symbols that are sizes by themselves."""
    rows = [*(size for meta in graph["tensor_values"].values() for size in meta["sizes"]),
            *graph["sym_int_values"].values()]
    for row in rows:
        expr = row.get("as_expr")
        found = _LONE.fullmatch(expr["expr_str"]) if expr is not None else None
        hint = expr.get("hint") if found is not None else None
        if hint and type(hint.get("as_int")) is int:
            yield found[1], hint["as_int"]


def read_ranges(data):
    """{name: (least, largest)}."""
    found = {}
    for name, span in data.items():
        low, high = span["min_val"], span["max_val"]
        if not all(n is None or type(n) is int for n in (low, high)) or (None not in (low, high) and low > high):
            raise ValueError(f"export.load: {shown(span)} is no range of sizes")
        found[str(name)] = -INFINITE if low is None else low, INFINITE if high is None else high
    return found


class GraphReader:
    """Reads one graph; graphs inside it are read by others.

    nodes     {name in the file: Node}
    missing   names of functions that are not there
    """

    def __init__(self, data, sizes, missing):
        self.data, self.sizes, self.missing = data, sizes, missing
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes.env)
        self.root, self.graph, self.nodes, self.known = flambeau.nn.Module(), Graph(), {}, {}

    def read(self, names=()):
        """The GraphModule; names: what the signature calls each input that is a plain value."""
        for k, data in enumerate(self.data["inputs"]):
            word, content = kind(data)
            plain = word not in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool")
            name = (names[k] if k < len(names) else None) or f"arg{k}" if plain else _name(content)
            node = self.graph.create_node("placeholder", name, (), {}, name)
            node.target = node.name
            node.meta["val"] = self.value(data) if plain else self.val(name)
            if not plain:
                self.nodes[name] = node
        for each in self.data["nodes"]:
            self.step(each)
        outputs = tuple(map(self.value, self.data["outputs"]))
        single = self.data.get("is_single_tensor_return") and len(outputs) == 1
        self.graph.output(outputs[0] if single else outputs)
        return GraphModule(self.root, self.graph, "GraphModule")

    # ---- what is known of values ----

    def val(self, name):
        """Of the value under a name."""
        if name not in self.known:
            self.known[name] = self.made(name)
        return self.known[name]

    def made(self, name):
        if name in self.data["tensor_values"]:
            return self.tensor(self.data["tensor_values"][name])
        for table in ("sym_int_values", "sym_float_values", "sym_bool_values"):
            if name in self.data.get(table, ()):
                return self.sizes.number(table, self.data[table][name])
        raise ValueError(f"export.load: the file says nothing of the value {shown(name)}")

    def tensor(self, meta):
        """A tensor without values."""
        env, dtype, device = self.sizes.env, dtype_of(meta["dtype"]), read_device(meta["device"])
        sizes, strides = ([self.sizes.size(n) for n in meta[row]] for row in ("sizes", "strides"))
        if layout_of(meta["layout"]) is not _C.strided:
            return None
        offset = self.sizes.size(meta["storage_offset"])
        if len(sizes) != len(strides):
            raise ValueError(f"export.load: a tensor of {len(sizes)} sizes has {len(strides)} strides")
        trial = env.trials()[-1] if env.var_to_range else {}
        made = OPS["empty_strided"](*([env.at(e, trial) for e in row] for row in (sizes, strides)), dtype=dtype,
                                    device="meta")
        if all(e.is_number for e in (*sizes, *strides, offset)):
            found = FakeTensor(made, device, self.fake)
            return found.requires_grad_() if meta["requires_grad"] else found
        return SymbolicTensor(made, device, self.fake, tuple(sizes), tuple(strides), offset)

    # ---- arguments ----

    def value(self, data):
        """An argument."""
        word, content = kind(data)
        reader = _VALUES.get(word)
        if reader is None:
            raise ValueError(f"export.load: the file has an argument of the kind {shown(word)}")
        return reader(self, content)

    def node(self, name):
        """The Node of a name."""
        if name not in self.nodes:
            raise ValueError(f"export.load: the program uses {shown(name)} before it is made")
        return self.nodes[name]

    def symbolic(self, content):
        """An open number, or a plain one."""
        word, value = kind(content)
        return self.node(value) if word == "as_name" else _plain(value)

    def subgraph(self, content):
        """A graph as an attribute of this one."""
        name = as_name(content["name"])
        while hasattr(self.root, name):
            name += "_"
        setattr(self.root, name, GraphReader(content["graph"], self.sizes, self.missing).read())
        return self.graph.create_node("get_attr", name, (), {})

    # ---- steps ----

    def step(self, data):
        """One call, and the Nodes that take its results apart."""
        args, kwargs = [], {}
        for each in data["inputs"]:
            value = self.value(each["arg"])
            if each.get("kind") == KEYWORD and each["name"]:
                kwargs[as_name(each["name"])] = value
            else:
                args.append(value)
        if data["target"] != _ABOUT_FORM:
            kwargs = {key: value for key, value in kwargs.items() if (key, value) not in _USUAL}
        try:
            target = read_target(data["target"], tuple(args))
        except Unknown as unknown:
            self.missing[str(unknown)] = None
            target = _absent
        outputs = [kind(o) for o in data["outputs"]]
        name = data.get("name") or (_first_name(outputs) if len(outputs) == 1 else None)
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name)
        node.meta.update(read_metadata(data["metadata"]))
        self.results(node, outputs, data)

    def results(self, node, outputs, data):
        """Names what a step gives."""
        whole = "higher_order" not in str(data["target"]) or data.get("is_hop_single_tensor_return") is not False
        if not outputs or (len(outputs) == 1 and outputs[0][0] == "as_none"):
            return
        if len(outputs) == 1 and whole and outputs[0][0] in _NAMED:
            self.keep(outputs[0], node)
            return
        if len(outputs) == 1 and outputs[0][0] == "as_tensors":
            node.meta["val"] = [self.item(node, k, ("as_tensor", c), data) for k, c in enumerate(outputs[0][1])]
            return
        node.meta["val"] = tuple(self.item(node, k, output, data) for k, output in enumerate(outputs))

    def item(self, node, k, output, data):
        """Takes one of several results out; what is known of it."""
        word, content = output
        if word == "as_none":
            return None
        name = _first_name([output]) if word in _NAMED else None
        taken = self.graph.create_node("call_function", operator.getitem, (node, k), {}, name)
        taken.meta.update(read_metadata(data["metadata"]))
        if word in ("as_tensors", "as_sym_ints"):
            one = word[:-1]
            taken.meta["val"] = [self.item(taken, j, (one, c), data) for j, c in enumerate(content)]
        elif word in _NAMED:
            self.keep(output, taken)
        else:
            raise ValueError(f"export.load: a result of the kind {shown(word)}")
        return taken.meta.get("val")

    def keep(self, output, node):
        name = _first_name([output])
        if name is None:  # a number that is settled
            node.meta["val"] = _plain(kind(output[1])[1])
            return
        if name in self.nodes:
            raise ValueError(f"export.load: two values have the name {shown(name)}")
        self.nodes[name] = node
        node.meta["val"] = self.val(name)


#: arguments that say what is so anyway, and the step that asks about it
_USUAL = (("layout", flambeau.strided), ("pin_memory", False))
_ABOUT_FORM = "torch.ops.aten._assert_tensor_metadata.default"
_NAMED = ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool")


def _name(content):
    """The name in {"name": …} or {"as_name": …}; None for a plain number."""
    found = content.get("name", content.get("as_name"))
    return None if found is None else str(found)


def _first_name(outputs):
    word, content = outputs[0]
    return _name(content) if word in _NAMED else None


def _absent(*args, **kwargs):
    raise NotImplementedError("a step of the program is not available")


def _plain(x):
    if x is not None and type(x) not in (bool, int, float, str):
        raise ValueError(f"export.load: {shown(x)} is no plain value")
    return x


def _float(x):
    if type(x) in (int, float) or x in ("Infinity", "-Infinity", "NaN"):
        return float(x)
    raise ValueError(f"export.load: {shown(x)} is no float")


def _numbers(convert):
    return lambda self, content: [convert(x) for x in content]


def _optional(self, content):
    word, inner = kind(content)
    return None if word == "as_none" else self.node(inner["name"])


def _operator(self, content):
    try:
        return read_target(content)
    except Unknown as unknown:
        self.missing[str(unknown)] = None
        return _absent


_VALUES = {
    "as_none": lambda self, content: None, "as_tensor": lambda self, content: self.node(content["name"]),
    "as_tensors": lambda self, content: [self.node(c["name"]) for c in content],
    "as_int": lambda self, content: _plain(content), "as_bool": lambda self, content: _plain(content),
    "as_string": lambda self, content: _plain(content), "as_float": lambda self, content: _float(content),
    "as_ints": _numbers(_plain), "as_bools": _numbers(_plain), "as_strings": _numbers(_plain),
    "as_floats": _numbers(_float), "as_int_lists": _numbers(lambda row: list(map(_plain, row))),
    "as_float_lists": _numbers(lambda row: list(map(_float, row))),
    "as_nested_tensors": lambda self, content: [[self.node(c["name"]) for c in row] for row in content],
    "as_sym_int": GraphReader.symbolic, "as_sym_float": GraphReader.symbolic, "as_sym_bool": GraphReader.symbolic,
    **{f"as_sym_{name}s": lambda self, content: list(map(self.symbolic, content)) for name in ("int", "float", "bool")},
    "as_scalar_type": lambda self, content: dtype_of(content), "as_layout": lambda self, content: layout_of(content),
    "as_memory_format": lambda self, content: format_of(content),
    "as_device": lambda self, content: read_device(content), "as_graph": GraphReader.subgraph,
    "as_optional_tensor": _optional, "as_optional_tensors": lambda self, content: [_optional(self, c) for c in content],
    "as_operator": _operator, "as_complex": lambda self, content: complex(_float(content["real"]),
                                                                          _float(content["imag"])),
    "as_string_to_argument": lambda self, content: {str(key): self.value(c) for key, c in content.items()},
}
