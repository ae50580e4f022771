"""From a program of `flambeau.export` to a graph of ONNX: each step by its translation."""

import operator
from dataclasses import dataclass, field

import flambeau

from .. import _C
from ..export.graph_signature import ConstantArgument, InputKind, SymIntArgument
from ..fx import Node
from ..fx.node import map_arg
from ..ops.kinds import writes_by_name
from ..ops.namespaces import READINGS, Reading
from ..utils._pytree import tree_leaves
from . import _control, _numbers
from ._dtypes import REAL_PARTS
from ._emitter import Emitter, Unavailable, sizes
from ._graph import Graph, Value
from ._graph import Node as _Node
from ._memory import Memory, name_of, native, writes
from .errors import OnnxExporterError, UnsupportedOperatorError
from .ops import symbolic_call
from .translations import PARTS, TABLE
from .translations.complex_numbers import paired
from .translations.complex_numbers import parts as complex_parts

#: what is computed beforehand may be this large; larger only if it is no larger than what it is made from
_LARGEST = 1 << 20
_READINGS = {reading: name for name, reading in READINGS.items()}


@dataclass
class Options:
    """What an export was asked for."""

    opset: int = 20
    fold: bool = True
    weights: bool = True
    custom: dict = field(default_factory=dict)
    input_names: list = field(default_factory=list)
    output_names: list = field(default_factory=list)


def translate(program, options, weights):
    """The Graph of an ExportedProgram, with other weights for those of these names.

    UnsupportedOperatorError where operators have no translation: it lists all of them.
    """
    graph = Graph()
    reserved = [graph.name(name) for name in options.output_names]
    g = Emitter(graph, options.opset, options.fold)
    run = Run(program.graph_module, g, options)
    run.check()
    values = _inputs(program, g, options, weights)
    outputs = run.all(values)
    _outputs(graph, g, outputs, reserved)
    graph.without_unused()
    return graph


def _inputs(program, g, options, weights):
    """The Values of the placeholders: weights are constants, arguments inputs."""
    values, held_apart, wishes = [], [], iter(options.input_names)
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            held_apart.append((len(values), spec))
            values.append(None)
        elif isinstance(spec.arg, ConstantArgument):
            values.append(spec.arg.value)
        elif isinstance(spec.arg, SymIntArgument):
            given = g.input(next(wishes, node.name), _C.int64, ())
            values.append(g.number(g.op("Reshape", given, [1])))
        else:
            held = node.meta["val"]
            values.append(g.input(next(wishes, node.name), held.dtype, sizes(held)))
    for place, spec in held_apart:
        tensor = (weights[spec.target] if spec.target in weights else program._value(spec.target)).detach()
        if options.weights or spec.kind is InputKind.CONSTANT_TENSOR:
            values[place] = g.graph.weight(g.graph.name(spec.target), tensor)
        else:
            values[place] = g.input(spec.target, tensor.dtype, tuple(tensor.shape))
    return values


def _outputs(graph, g, outputs, names):
    """Gives the results their names, as far as there are some. A result that is an input, a constant or another result
    becomes a value of its own."""
    if not outputs:
        raise OnnxExporterError("onnx.export: the model gives no tensors, so there is nothing to write")
    wishes, seen = iter(names), set()
    for value in outputs:
        wish = next(wishes, None)
        if not isinstance(value, Value):
            value = g.scalar(value, None)
        if value.number:
            value = g.squeeze(value, 0)
            value.shape = ()
        if value.node is None or id(value) in seen or value.node not in graph.nodes:
            made = Value(wish or graph.name(f"{value.name}_out"), value.dtype, value.shape)
            graph.nodes.append(_Node("Identity", "", [value], [made], {}))
            value = made
        elif wish is not None:
            value.name = wish
        seen.add(id(value))
        graph.outputs.append(value)


class Run:
    """Translates the steps of one graph."""

    def __init__(self, module, g, options):
        self.module, self.g, self.options = module, g, options
        self.memory = Memory(self)

    # ---- before ------------------------------------------------------------------------------------------------------

    def missing(self):
        """The names of operators without a translation, those of inner graphs included."""
        found = set()
        for node in self.module.graph.nodes:
            if node.op == "get_attr":
                held = _control.inner_graph(self.module, node)
                if held is not None:
                    found |= Run(held, self.g, self.options).missing()
            elif node.op == "call_function" and not _known(node.target) and \
                    self.translation(node.target) is None and self.translation(node.target, PARTS) is None:
                found.add(_called(node.target))
        return found

    def check(self):
        """UnsupportedOperatorError for operators that have no translation."""
        missing = sorted(self.missing())
        if missing:
            raise UnsupportedOperatorError(
                f"onnx.export: ONNX has no form for {len(missing)} operator{'s' * (len(missing) > 1)} of this model: "
                f"{', '.join(missing)}; give each one in custom_translation_table={{operator: function(g, *arguments)}}"
                ", or write the model without")

    def custom(self, target):
        """The caller's own translation of an operator, or None."""
        return self.options.custom.get(name_of(target) or getattr(target, "qualified", None))

    def translation(self, target, table=TABLE):
        """The function that translates an operator, or None."""
        found, name = self.custom(target), name_of(target)
        if target is symbolic_call:
            return _symbolic
        if found is not None or name is None:
            return found
        return table.get(name) or (table.get(name.removesuffix("_")) if writes_by_name(name) else None)

    # ---- all steps ---------------------------------------------------------------------------------------------------

    def all(self, values):
        """The values of the results, for those of the placeholders."""
        given = iter(values)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.memory.keep(node, next(given))
            elif node.op == "output":
                return [self.value(n) for n in tree_leaves(node.args[0])]
            else:
                try:
                    self.step(node)
                except Unavailable as reason:
                    raise UnsupportedOperatorError(f"onnx.export: {_called(node.target)}: {reason}\n  at step "
                                                   f"{node.name} of the graph") from None
        raise AssertionError("a graph without an output")

    def value(self, x):
        """A Node's value; anything else as it is."""
        return self.memory.read(x) if isinstance(x, Node) else x

    def step(self, node):
        """Translates a step and keeps its value."""
        if node.op == "get_attr":
            held = _control.inner_graph(self.module, node)
            value = held if held is not None else self.g.const(getattr(self.module, node.target), node.name)
            self.memory.keep(node, value)
            return
        if not node.users and not writes(node):
            return
        if not writes(node):
            self.memory.keep(node, self.translated(node, {}))
            return
        written = node.kwargs.get("out", node.args[0])
        value = self.translated(node, {})
        if isinstance(value, list):
            raise Unavailable(f"{_called(node.target)}: several results with out= are not written; take the results")
        self.memory.write(written, self._fitting(value, written))
        self.memory.same[node] = written

    def inner(self, module, g):
        """The Run of a graph inside this one."""
        return Run(module, g, self.options)

    def _fitting(self, value, written):
        """A value in the dtype of what it is written into."""
        held = written.meta["val"]
        made = self.g.cast(value, held.dtype)
        made.shape = made.shape or sizes(held)
        return made

    # ---- one step ----------------------------------------------------------------------------------------------------

    def translated(self, node, instead, dtype=None):
        """The value of a step, with other values for some of its inputs, and the dtype that its results then have."""
        def of(n):
            return instead[n] if n in instead else self.memory.read(n)

        args = map_arg(tuple(node.args), of)
        kwargs = {k: map_arg(v, of) for k, v in node.kwargs.items() if k != "out"}
        g, target = self.g, node.target
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, Reading):
            return self._reading(_READINGS[target], *args)
        if target in _control.TABLE:
            return _control.TABLE[target](self, node, *args, **kwargs)
        if target in _numbers.TABLE and not _of_tensors(node):
            return _numbers.computed(g, target, args)
        known = self._computed(node, target, args, kwargs)
        known = self._empty(node, dtype) if known is None else known
        if known is not None:
            return known
        if _is_complex((args, kwargs)) or (dtype is None and _is_complex(node.meta.get("val"))):
            return self._of_pairs(node, args, kwargs)
        function = self.translation(target) or self.translation(target, PARTS)
        return self._by_translation(function, node, args, kwargs, dtype)

    def _of_pairs(self, node, args, kwargs):
        """An operator of complex tensors: by its own translation for them, or part by part where that is the same."""
        function = self.translation(node.target, PARTS)
        if function is not None:
            return self._by_translation(function, node, args, kwargs)
        if _plain(node.target) not in _PART_BY_PART:
            raise Unavailable("ONNX has no complex tensors; this operator is not written for pairs of real ones")

        def by_parts(g, *args, **kwargs):
            def part(x, k):
                if isinstance(x, (tuple, list)):
                    return type(x)(part(v, k) for v in x)
                if isinstance(x, Value) and x.dtype.is_complex:
                    return complex_parts(g, x)[k]
                if k and isinstance(x, Value) and x.dtype.is_floating_point and not x.number:
                    return g.shaped(g.op("Mul", x, g.scalar(0.0, x.dtype)), x.shape)  # a real number
                return (x.imag if k else x.real) if isinstance(x, (float, complex)) else x

            real, imag = (self.translation(node.target)(g, *part(args, k), **{n: part(v, k) for n, v in kwargs.items()})
                          for k in (0, 1))
            if isinstance(real, (tuple, list)):
                return [paired(g, a, b, len(sizes(o))) for a, b, o in zip(real, imag, g.out, strict=True)]
            return paired(g, real, imag, g.rank)

        return self._by_translation(by_parts, node, args, kwargs)

    def _by_translation(self, function, node, args, kwargs, dtype=None):
        g, before = self.g, (self.g.out, self.g.wish, self.g.kind, self.g.last_users, self.g.contiguous)
        first = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        g.out, g.wish, g.kind = node.meta.get("val"), node.name, _plain(node.target)
        g.last_users = len(first.users) if first is not None else 2
        g.contiguous = first is not None and _is_contiguous(first)
        count = len(g.graph.nodes)
        made = function(g, *args, **kwargs)
        made = self._finished(made, g.out, dtype)
        fresh = g.graph.nodes[count:]
        if isinstance(made, Value) and made.node is not None and any(made.node is n for n in fresh):
            made.name = g.graph.name(node.name)
        g.out, g.wish, g.kind, g.last_users, g.contiguous = before
        return made

    def _finished(self, made, out, dtype):
        """The result with the sizes that the trace has seen, and its dtype or another."""
        if isinstance(made, (list, tuple)):
            outs = list(out) if isinstance(out, (list, tuple)) else [None] * len(made)
            return [self._finished(m, o, dtype) for m, o in zip(made, outs, strict=False)]
        if not isinstance(made, Value) or not isinstance(out, _C.Tensor):
            return made
        dtype = dtype or out.dtype
        if made.dtype not in (None, dtype, REAL_PARTS.get(dtype)):
            made = self.g.cast(made, dtype)
        made.dtype = dtype
        made.shape = sizes(out)
        return made

    def _reading(self, name, *args):
        if name == "assert":
            return None
        if name == "size":
            return self.g.size(*args)
        if name == "numel":
            return self.g.times(*(self.g.size(args[0], d) for d in range(args[0].rank)))
        if name == "item":
            return self.g.number(self.g.reshape(args[0], [1]))
        raise Unavailable("the layout of a tensor in memory is nothing that ONNX knows")

    def _empty(self, node, dtype):
        """A result without elements as a constant, whatever makes it."""
        out = node.meta.get("val")
        if not isinstance(out, _C.Tensor) or 0 not in sizes(out) or not all(isinstance(n, int) for n in sizes(out)):
            return None
        return self.g.const(flambeau.zeros(sizes(out), dtype=dtype or out.dtype), node.name)

    # ---- what is known before the model runs -------------------------------------------------------------------------

    def _computed(self, node, target, args, kwargs):
        """The result as a constant where all inputs are constants, and it is not larger than they are."""
        leaves = [v for v in tree_leaves((args, kwargs)) if isinstance(v, Value)]
        if not self.options.fold or not isinstance(target, _C.Op) or writes(node) or node.is_impure() or \
                name_of(target) in _NOT_BEFOREHAND or any(v.data is None for v in leaves):
            return None
        out = [t for t in tree_leaves(node.meta.get("val")) if isinstance(t, _C.Tensor)]
        if not out or not all(isinstance(n, int) for t in out for n in sizes(t)):
            return None
        size = sum(t.numel() * t.element_size() for t in out)
        if size > max(_LARGEST, sum(v.data.numel() * v.data.element_size() for v in leaves)):
            return None
        args, kwargs = (_with_data(x) for x in (args, kwargs))
        with flambeau.no_grad():
            found = target(*args, **kwargs)
        if isinstance(found, _C.Tensor):
            return self.g.const(found, node.name)
        return [self.g.const(t, node.name) if isinstance(t, _C.Tensor) else t for t in found]


#: operators that do the same to the real and to the imaginary parts of complex tensors
_PART_BY_PART = frozenset("""view reshape _unsafe_view view_as reshape_as flatten ravel unflatten permute transpose
    movedim t mT numpy_T unsqueeze squeeze expand expand_as slice narrow select diagonal diag_embed tril triu cat stack
    split split_with_sizes chunk unbind unfold repeat flip roll constant_pad_nd sum mean index index_select gather
    index_put masked_select neg copy_ zeros zeros_like new_zeros zero_ where cumsum index_add take""".split())

#: operators that are random, or whose values nobody promises
_NOT_BEFOREHAND = frozenset("""rand randn rand_like randn_like randint randint_like randperm dropout_forward
    bernoulli_tensor empty empty_like new_empty empty_strided multinomial poisson _standard_gamma _sample_dirichlet
    _binomial""".split())


def _with_data(x):
    if isinstance(x, Value):
        return x.data
    if isinstance(x, (tuple, list)):
        return type(x)(_with_data(v) for v in x)
    return {k: _with_data(v) for k, v in x.items()} if isinstance(x, dict) else x


def _symbolic(g, domain_op, inputs, attrs, dtypes, shapes, version):
    """An operator that the program names itself."""
    domain, _, kind = domain_op.rpartition("::")
    given = {k: list(map(int, v)) if isinstance(v, (tuple, list)) and v and isinstance(v[0], bool) else
             list(v) if isinstance(v, (tuple, list)) else int(v) if isinstance(v, bool) else v
             for k, v in attrs.items()}
    wishes = [f"{g.wish}_{kind.lower()}"] * len(dtypes)
    made = g.graph.add(kind, list(inputs), given, wishes, domain, 1 if version is None else version)
    for value, dtype in zip(made, dtypes, strict=True):
        value.dtype = dtype
    return made


def _is_complex(tree):
    found = {x.dtype for x in tree_leaves(tree) if isinstance(x, (Value, _C.Tensor)) and x.dtype is not None}
    if any(dtype.is_complex and dtype not in REAL_PARTS for dtype in found):
        raise Unavailable("complex numbers of half precision are not written; use complex64")
    return any(dtype.is_complex for dtype in found)


def _plain(target):
    name = name_of(target)
    if name is None:
        return getattr(target, "qualified", str(target))
    return name.removesuffix("_") if name not in TABLE and writes_by_name(name) else name


def _called(target):
    """An operator's name in messages."""
    return name_of(target) or getattr(target, "qualified", None) or getattr(target, "__name__", str(target))


def _known(target):
    return target is operator.getitem or isinstance(target, Reading) or target in _control.TABLE or \
        target in _numbers.TABLE


def _of_tensors(node):
    return any(isinstance(n.meta.get("val"), _C.Tensor) for n in node.all_input_nodes)


def _is_contiguous(node):
    held = node.meta.get("val")
    return isinstance(held, _C.Tensor) and held.layout is _C.strided and native(held).is_contiguous()
