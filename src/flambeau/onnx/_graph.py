"""The graph of a model on its way into a file: values, nodes, and the tensors that are constants of it."""

from .. import _C

#: operators whose results have another dtype than their first input
_RESULTS = {
    **dict.fromkeys("Shape Size ArgMax ArgMin NonZero NonMaxSuppression".split(), _C.int64),
    **dict.fromkeys("Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor IsNaN IsInf".split(), _C.bool),
}
#: operators whose every call gives something else
_RANDOM = frozenset("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Dropout".split())


class Value:
    """A tensor of the graph: its name, its dtype, its sizes as far as they are known (ints and expressions), the Node
    that makes it, and its contents where it is a constant. `number` marks sizes and other numbers of the program, which
    are tensors of one element."""

    __slots__ = ("data", "dtype", "name", "node", "number", "shape")

    def __init__(self, name, dtype=None, shape=None, data=None, number=False):
        self.name, self.dtype, self.shape, self.data, self.number = name, dtype, shape, data, number
        self.node = None

    @property
    def rank(self):
        """The number of dimensions."""
        return len(self.shape)

    def __repr__(self):
        return f"{self.name}: {self.dtype} {self.shape}"


class Node:
    """An operator of ONNX, applied; an input that is left out is None."""

    __slots__ = ("attributes", "domain", "inputs", "kind", "outputs")

    def __init__(self, kind, domain, inputs, outputs, attributes):
        self.kind, self.domain, self.inputs, self.outputs, self.attributes = kind, domain, inputs, outputs, attributes
        for value in outputs:
            value.node = self

    @property
    def needed(self):
        """The values that it reads, those of graphs inside it included."""
        inner = [v for a in self.attributes.values() if isinstance(a, Graph) for v in a.needed]
        return [v for v in self.inputs if v is not None] + inner


class Graph:
    """Nodes in the order they run. A graph inside another (a branch, a loop's body) sees the values of the outer one;
    names and constants belong to the outermost."""

    def __init__(self, outer=None):
        self.outer = outer
        self.inputs, self.outputs, self.nodes = [], [], []
        self._made, self.sizes = {}, {}
        self.top = self if outer is None else outer.top
        if outer is None:
            self._names, self.constants, self._by_content, self.domains = {}, {}, {}, {}

    def name(self, wish):
        """A name that nothing has yet."""
        names = self.top._names
        count = names.get(wish)
        if count is None:
            names[wish] = 0
            return wish
        while f"{wish}_{count}" in names:
            count += 1
        names[wish], names[f"{wish}_{count}"] = count + 1, 0
        return f"{wish}_{count}"

    def add(self, kind, inputs, attributes, wishes, domain="", version=1):
        """The results of an operator: of the same one if it has been applied to the same before, as far as it is not
        random."""
        key = None
        if kind not in _RANDOM and not domain and not any(isinstance(a, Graph) for a in attributes.values()):
            given = tuple(sorted((k, _key(v)) for k, v in attributes.items()))
            key = kind, tuple(map(id, inputs)), given, len(wishes)
            found = self._known(key)
            if found is not None:
                return found
        if domain:
            self.top.domains[domain] = max(version, self.top.domains.get(domain, 0))
        typed = [v.dtype for v in (inputs[1:] if kind == "Where" else inputs) if v is not None]
        dtype = _RESULTS.get(kind, typed[0] if typed else None)
        outputs = [Value(self.name(wish), dtype) for wish in wishes]
        self.nodes.append(Node(kind, domain, list(inputs), outputs, attributes))
        if key is not None:
            self._made[key] = outputs
        return outputs

    def _known(self, key):
        graph = self
        while graph is not None:
            if key in graph._made:
                return graph._made[key]
            graph = graph.outer
        return None

    def size_of(self, expression):
        """The value that holds an open size, or None: it is read of a tensor once."""
        graph = self
        while graph is not None and expression is not None:
            if expression in graph.sizes:
                return graph.sizes[expression]
            graph = graph.outer
        return None

    def constant(self, tensor, wish="const"):
        """A constant with these contents; small ones of equal contents are one."""
        tensor, key = tensor.detach(), None
        if tensor.numel() <= 64:
            key = str(tensor.dtype), tuple(tensor.shape), repr(tensor.tolist())
            found = self.top._by_content.get(key)
            if found is not None:
                return found
        value = self.weight(self.name(wish), tensor)
        if key is not None:
            self.top._by_content[key] = value
        return value

    def weight(self, name, tensor):
        """A constant of this name."""
        self.top._names.setdefault(name, 0)
        value = Value(name, tensor.dtype, tuple(tensor.shape), tensor)
        self.top.constants[name] = value
        return value

    @property
    def needed(self):
        """Values from outside that its nodes and outputs read."""
        own = {id(v) for v in self.inputs} | {id(v) for n in self.nodes for v in n.outputs}
        found = [v for n in self.nodes for v in n.needed] + self.outputs
        return [v for v in found if id(v) not in own]

    def without_unused(self):
        """Drops nodes that no output needs, and constants that no node does."""
        wanted, kept = {id(v) for v in self.outputs}, []
        for node in reversed(self.nodes):
            if any(id(v) in wanted for v in node.outputs):
                for inner in node.attributes.values():
                    if isinstance(inner, Graph):
                        inner.without_unused()
                kept.append(node)
                wanted.update(id(v) for v in node.needed)
        self.nodes = kept[::-1]
        if self.outer is None:
            self.constants = {name: v for name, v in self.constants.items() if id(v) in wanted}


def _key(attribute):
    return tuple(attribute) if isinstance(attribute, list) else attribute, type(attribute).__name__

