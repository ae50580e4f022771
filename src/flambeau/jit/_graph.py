"""A program as a graph: nodes with kinds, inputs, outputs and blocks, by the names that programs of PyTorch's ask.

The graph is a picture of a program, for looking at: changing it changes nothing.
"""

import flambeau

from .._shown import shown
from ._graph_types import Type
from ._writing import number, quoted


class Use:
    """That a node has a value as its argument number `offset`."""

    def __init__(self, user, offset):
        self.user, self.offset = user, offset


class Value:
    """What a node makes, or a block is given."""

    def __init__(self, graph, node, kind, name=None):
        self._graph, self._node, self._kind, self._uses = graph, node, kind, []
        self._number = graph.numbered()
        self._name = name

    def debugName(self):
        """Its name in the printed graph, without %."""
        return self._name or str(self._number)

    def setDebugName(self, name):
        """Gives it another name."""
        self._name = name

    def unique(self):
        """Its number."""
        return self._number

    def type(self):
        """Its Type."""
        return self._kind

    def node(self):
        """The node that makes it."""
        return self._node

    def offset(self):
        """Which of its node's outputs it is."""
        return self._node._outputs.index(self)

    def uses(self):
        """A Use for each place where it is an argument."""
        return list(self._uses)

    def toIValue(self):
        """What it is, where it is a constant; None otherwise."""
        return self._node._attributes.get("value") if self._node.kind() == "prim::Constant" else None

    def isCompleteTensor(self):
        """Whether its sizes are known beforehand, as in the graph of one run."""
        return self._kind.sizes() is not None

    def requires_grad(self):
        """Whether it is known to require a gradient."""
        return self._kind.requires_grad()

    def __repr__(self):
        return f"{self.debugName()} defined in ({str(self._node).strip()})"


#: kind of an attribute -> the kinds of values
_SORTS = (("i", (bool, int)), ("f", float), ("c", complex), ("s", str), ("t", flambeau.Tensor))


def _sort(value):
    """"i" of a whole number, "is" of several, and so on."""
    if isinstance(value, (list, tuple)):
        return f"{_sort(value[0])}s" if value else "is"
    return next((sort for sort, kinds in _SORTS if isinstance(value, kinds)), "ival")


class Node:
    """One step: `kind()` says what it does, to `inputs()`, with constants as attributes; it makes `outputs()`."""

    def __init__(self, block, kind, inputs=(), kinds=(), attributes=None, line=None):
        self._block, self._kind, self._line, self._scope = block, kind, line, block.graph.scope
        self._attributes = dict(attributes or {})
        self._inputs, self._blocks = [], []
        self._outputs = [Value(block.graph, self, each) for each in kinds]
        for value in inputs:
            self._take(value)

    def _take(self, value):
        value._uses.append(Use(self, len(self._inputs)))
        self._inputs.append(value)

    def kind(self):
        """What it does: "aten::add", "prim::If" …"""
        return self._kind

    def schema(self):
        """The same: the names of the arguments are those of the operator."""
        return self._kind

    def inputs(self):
        """An iterator over its arguments."""
        return iter(self._inputs)

    def outputs(self):
        """An iterator over what it makes."""
        return iter(self._outputs)

    def blocks(self):
        """An iterator over the blocks inside."""
        return iter(self._blocks)

    def inputsAt(self, i):
        """Its argument number i."""
        return self._inputs[i]

    def outputsAt(self, i):
        """Its output number i."""
        return self._outputs[i]

    def inputsSize(self):
        """How many arguments it has."""
        return len(self._inputs)

    def outputsSize(self):
        """How many values it makes."""
        return len(self._outputs)

    def hasMultipleOutputs(self):
        """Whether it makes more than one value."""
        return len(self._outputs) > 1

    def input(self):
        """Its only argument."""
        return self._only(self._inputs, "argument")

    def output(self):
        """The only value that it makes."""
        return self._only(self._outputs, "output")

    def _only(self, values, what):
        if len(values) != 1:
            raise RuntimeError(f"{what}: {self._kind} has {len(values)} of them, not one; use {what}s()".replace(
                "arguments()", "inputs()"))
        return values[0]

    def attributeNames(self):
        """The names of its attributes."""
        return list(self._attributes)

    def hasAttribute(self, name):
        """Whether it has an attribute of this name."""
        return name in self._attributes

    def hasAttributes(self):
        """Whether it has any."""
        return bool(self._attributes)

    def kindOf(self, name):
        """The sort of an attribute: "i", "f", "s", "t", "is" …"""
        return _sort(self._attribute(name))

    def _attribute(self, name, sort=None):
        if name not in self._attributes:
            raise RuntimeError(f"{self._kind} has no attribute {shown(name)}; it has "
                               f"{', '.join(map(shown, self._attributes)) or 'none'}")
        value = self._attributes[name]
        if sort not in (None, _sort(value)):
            raise RuntimeError(f"the attribute {shown(name)} of {self._kind} is of the sort {shown(_sort(value))}, not "
                               f"{shown(sort)}; read it by {_sort(value)}()")
        return value

    def i(self, name):
        """An attribute that is a whole number."""
        return int(self._attribute(name, "i"))

    def f(self, name):
        """One that is a float."""
        return self._attribute(name, "f")

    def s(self, name):
        """One that is a text."""
        return self._attribute(name, "s")

    def t(self, name):
        """One that is a tensor."""
        return self._attribute(name, "t")

    def ival(self, name):
        """One that is anything."""
        return self._attribute(name)

    def scopeName(self):
        """The modules inside the whole one that it is of, in an inlined graph: "layer" and "layer.0" of one in the
        first part of `layer`, as "/layer/layer.0"."""
        return "".join(f"/{'.'.join(self._scope[:k + 1])}" for k in range(len(self._scope)))

    def sourceRange(self):
        """The line of the program's text that it comes from."""
        return self._line or ""

    def owningBlock(self):
        """The block that it stands in."""
        return self._block

    def owningGraph(self):
        """The graph that it stands in."""
        return self._block.graph

    def findNode(self, kind, recurse=True):
        """The first node of a kind in its blocks; None where there is none."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind in its blocks."""
        return [node for block in self._blocks for node in block.findAllNodes(kind, recurse)]

    def __repr__(self):
        return "\n".join(_lines(self, 0)) + "\n"


class Block:
    """Nodes in the order they run, what they are given, and what they leave."""

    def __init__(self, graph, owner=None):
        self.graph, self._owner, self._nodes = graph, owner, []
        self._given, self._left = Node(self, "prim::Param"), Node(self, "prim::Return")

    def nodes(self):
        """An iterator over the nodes."""
        return iter(self._nodes)

    def inputs(self):
        """An iterator over what the block is given."""
        return self._given.outputs()

    def outputs(self):
        """An iterator over what it leaves."""
        return self._left.inputs()

    def paramNode(self):
        """A node whose outputs are what the block is given."""
        return self._given

    def returnNode(self):
        """A node whose arguments are what the block leaves."""
        return self._left

    param_node, return_node = paramNode, returnNode

    def owningNode(self):
        """The node that it is a block of; None for the whole graph."""
        return self._owner

    def findNode(self, kind, recurse=True):
        """The first node of a kind; None where there is none."""
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind, recurse=True):
        """The nodes of a kind, those in blocks of others included."""
        found = []
        for node in self._nodes:
            found += [node] if node.kind() == kind else []
            found += node.findAllNodes(kind) if recurse else []
        return found

    # ---- how it is made ----------------------------------------------------------------------------------------------

    def add(self, kind, inputs=(), kinds=(), attributes=None, line=None):
        """Appends a node."""
        made = Node(self, kind, inputs, kinds, attributes, line)
        self._nodes.append(made)
        return made

    def inner(self, node):
        """Appends a block to a node of this one."""
        made = Block(self.graph, node)
        node._blocks.append(made)
        return made

    def give(self, kind, name=None):
        """One more value that the block is given."""
        made = Value(self.graph, self._given, kind, name)
        self._given._outputs.append(made)
        return made

    def leave(self, value):
        """One more value that the block leaves."""
        self._left._take(value)


class Graph(Block):
    """The graph of a function or method."""

    def __init__(self):
        self._count, self._taken = 0, {}
        self.scope = ()  # the names that lead to the module whose nodes are added
        self._constants = {}  # (type, text or identity of the value): the node of the constant
        super().__init__(self)

    def numbered(self):
        """A number that no value has."""
        self._count += 1
        return self._count - 1

    def named(self, name):
        """A name for a value: `x.1`, `x.2` …"""
        self._taken[name] = self._taken.get(name, 0) + 1
        return f"{name}.{self._taken[name]}"

    def constant_first(self, value, kind):
        """A constant at the beginning of the graph, one of each value."""
        plain = isinstance(value, (bool, int, float, str, type(None)))
        key = kind, repr(value) if plain else id(value)
        if key not in self._constants:
            made = Node(self, "prim::Constant", (), [kind], {} if value is None else {"value": value})
            self._nodes.insert(len(self._constants), made)
            self._constants[key] = made
        return self._constants[key]._outputs[0]

    def without_leftovers(self):
        """Drops constants that nobody uses."""
        self._nodes = [n for n in self._nodes if n.kind() != "prim::Constant" or n._outputs[0]._uses]

    def __repr__(self):
        head = f"graph({_wide([_declared(v) for v in self.inputs()], 6)}):"
        left = ", ".join(f"%{v.debugName()}" for v in self.outputs())
        return "\n".join([head, *(line for n in self._nodes for line in _lines(n, 2)), f"  return ({left})"]) + "\n"


def path_of(value):
    """The names of the attributes that lead from the module to what it holds."""
    names, node = [], value.node()
    while node.kind() == "prim::GetAttr":
        names.insert(0, node.s("name"))
        node = node.inputsAt(0).node()
    return tuple(names)


def _wide(parts, indent):
    return (",\n" + " " * indent).join(parts)


def _declared(value):
    return f"%{value.debugName()} : {value.type().shown()}"


def _lines(node, indent):
    """The lines that show a node, and those of its blocks."""
    made = ", ".join(map(_declared, node._outputs))
    attributes = ", ".join(f"{name}={_written(value)}" for name, value in node._attributes.items())
    given = ", ".join(f"%{v.debugName()}" for v in node._inputs)
    text = f"{made} = " if made else ""
    yield f"{' ' * indent}{text}{node.kind()}{f'[{attributes}]' if attributes else ''}({given})"
    for k, block in enumerate(node._blocks):
        yield f"{' ' * (indent + 2)}block{k}({', '.join(map(_declared, block.inputs()))}):"
        for inner in block.nodes():
            yield from _lines(inner, indent + 4)
        yield f"{' ' * (indent + 4)}-> ({', '.join(f'%{v.debugName()}' for v in block.outputs())})"


def _written(value):
    if isinstance(value, flambeau.Tensor):
        return "<Tensor>" if value.numel() > 1 else "{" + number(value.item()) + "}"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    return number(value) if isinstance(value, (int, float, complex)) else shown(value)


#: the type of every tensor
TENSOR, INT, FLOAT, BOOL, TEXT, NONE = map(Type, ("Tensor", "int", "float", "bool", "str", "NoneType"))
