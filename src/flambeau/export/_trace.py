"""export: runs a module once on tensors without values, and keeps the operators with the sizes that may differ."""

import contextlib
import inspect

import flambeau

from .. import _C
from .._graph.exporting import exporting
from .._shown import shown
from .._subclasses.fake_tensor import FakeTensorMode
from .._symbolic.expressions import Poly, constant, expression, told
from .._symbolic.numbers import SymInt
from .._symbolic.shape_env import Retrace, ShapeEnv, UserError
from .._symbolic.statements import INFINITE, certain
from ..fx import GraphModule
from ..fx.experimental._known import describe
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from ..fx.proxy import Proxy
from ..utils._pytree import SequenceKey, tree_flatten, tree_flatten_with_path, tree_unflatten
from ._checks import InputChecks, ValueRanges
from ._detach import detaching_steps
from ._modules import OPEN, Calls
from ._tracer import InsideAStep, Tracer, stays
from ._whole import Whole
from .dynamic_shapes import (
    AdditionalInputs,
    DimHint,
    OpenSizeError,
    ShapesCollection,
    ShapesError,
    Symbols,
    bound,
    specs,
)
from .exported_program import ExportedProgram, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

_RUNS = 64


def _label(key):
    """A step of a path as a part of a name."""
    inner = key.idx if isinstance(key, SequenceKey) else getattr(key, "key", getattr(key, "name", key))
    return "".join(c if c.isalnum() or c == "_" else "_" for c in str(inner))


def call_names(mod, args, kwargs):
    """(names of the arguments of the call, names of their leaves)."""
    parameters = list(inspect.signature(mod.forward).parameters.values())
    names = []
    for k in range(len(args)):
        if k < len(parameters) and parameters[k].kind in (parameters[k].POSITIONAL_ONLY,
                                                           parameters[k].POSITIONAL_OR_KEYWORD):
            names.append(parameters[k].name)
        else:
            first = next((j for j, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
            if first is None:
                raise TypeError(f"export: forward of {type(mod).__name__} takes {len(parameters)} arguments, got "
                                f"{len(args)}")
            names.append(f"{parameters[first].name}_{k - first}")
    names += kwargs
    leaves = [f"{name}{''.join('_' + _label(key) for key in path)}"
              for name, value in zip(names, (*args, *kwargs.values()), strict=True)
              for path, _ in tree_flatten_with_path(value)[0]]
    return names, leaves


def _said(mod, args, kwargs, dynamic_shapes):
    """What is said of each leaf of (args, kwargs), in their order."""
    values = (*args, *kwargs.values())
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    if dynamic_shapes is None:
        return [s for v in values for s in specs(v, None, "")]
    if isinstance(dynamic_shapes, (tuple, list)):
        arguments = bound(mod, args, kwargs)
        if len(arguments) == len(dynamic_shapes) and _grouped(mod, arguments, dynamic_shapes):
            return _said(mod, args, kwargs, dict(zip([name for name, _ in arguments], dynamic_shapes, strict=True)))
        if len(dynamic_shapes) != len(values):
            raise ShapesError(f"dynamic_shapes: {len(values)} arguments, but something is said of "
                              f"{len(dynamic_shapes)}")
        return [s for k, (v, d) in enumerate(zip(values, dynamic_shapes, strict=True))
                for s in specs(v, d, f"argument {k}")]
    arguments = dict(bound(mod, args, kwargs))
    kinds = {p.name: p.kind for p in inspect.signature(mod.forward).parameters.values()}
    unknown = dynamic_shapes.keys() - arguments.keys() - kwargs.keys()
    if unknown:
        raise ShapesError(f"dynamic_shapes: the arguments are {shown(list(arguments))}, and {shown(sorted(unknown))} "
                          "is none of them")
    by_name, positional = {}, []
    for name, value in arguments.items():
        said = dynamic_shapes.get(name)
        if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
            positional += [(f"{name}[{k}]", v, d) for k, (v, d) in enumerate(
                zip(value, said or [None] * len(value), strict=True))]
        elif kinds[name] is inspect.Parameter.VAR_KEYWORD:
            by_name |= {k: (k, v, (said or {}).get(k, dynamic_shapes.get(k))) for k, v in value.items()}
        elif name in kwargs:
            by_name[name] = name, value, said
        else:
            positional.append((name, value, said))
    return [s for where, value, said in (*positional, *(by_name[k] for k in kwargs)) for s in specs(value, said, where)]


def _grouped(mod, arguments, said):
    """Whether the entries are in the order of the signature, *args and **kwargs one each."""
    kinds = {p.name: p.kind for p in inspect.signature(mod.forward).parameters.values()}
    many = [(value, one) for (name, value), one in zip(arguments, said, strict=True)
            if kinds[name] in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)]
    return all(one is None or (isinstance(one, (tuple, list, dict)) and len(one) == len(value)
                               and isinstance(one, dict) == isinstance(value, dict)) for value, one in many)


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False):
    """The program that a module runs for such arguments, with its weights: an ExportedProgram.

    The module runs on tensors without values. What its Python decides is decided; sizes that `dynamic_shapes` names
    stay open, and the program is right for all of them.

    args, kwargs    example arguments: a tuple, a dict
    dynamic_shapes  for each argument, by name or in their order: None, or {dim: Dim("name"), Dim.AUTO, Dim.DYNAMIC};
                    tuples, lists and dicts of tensors have tuples, lists and dicts of these
    strict          accepted; a module is always traced by running it
    preserve_module_call_signature
                    names of modules that `unflatten` gives their arguments and results as they were
    prefer_deferred_runtime_asserts_over_guards
                    a named size that the program bounds is no error: the program says so when it is called

    ConstraintViolationError where a size that was named has to be fixed or bounded; it says how to name it. Values
    cannot be read (`item`, `if x.sum() > 0`); `flambeau.cond` keeps both branches.

    >>> import flambeau
    >>> from flambeau.export import Dim, export
    >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(2, 3), flambeau.nn.ReLU())
    >>> program = export(net, (flambeau.ones(4, 2),), dynamic_shapes=({0: Dim("batch")},))
    >>> [node.name for node in program.graph.nodes]
    ['p_0_weight', 'p_0_bias', 'input_1', 'linear', 'relu', 'output']
    >>> flambeau.equal(program.module()(flambeau.ones(9, 2)), net(flambeau.ones(9, 2)))
    True
    """
    if not isinstance(mod, flambeau.nn.Module):
        raise ValueError(f"export: expected a Module, got {type(mod).__name__}; make the function a Module's forward")
    if any(kind.__name__ == "ScriptModule" for kind in type(mod).__mro__):
        raise ValueError("export: a scripted module has its graph already; export the module that it was made of")
    if not isinstance(args, tuple):
        raise ArgumentsError(f"export: args must be a tuple of example arguments, got {type(args).__name__}")
    if not isinstance(strict, bool):
        raise TypeError(f"export: strict must be a bool, got {shown(strict)}")
    kwargs = dict(kwargs or {})
    said = _said(mod, args, kwargs, dynamic_shapes)
    kept = tuple(preserve_module_call_signature)
    options = {"kept": kept, "defers": bool(prefer_deferred_runtime_asserts_over_guards)}
    try:
        return exported(mod, args, kwargs, said, options)
    except InsideAStep:  # it is taken apart
        return exported(mod, args, kwargs, said, options | {"whole": False})


def exported(mod, args, kwargs, said, options):
    """The program of as many runs as it takes until its conditions on sizes are known."""
    env = ShapeEnv(duck_shape=False)
    env.restarts = True
    for _ in range(_RUNS):
        try:
            trace = Export(mod, args, kwargs, said, env)
            vars(trace).update(options)
            with exporting(), _attributes_kept(mod):
                return trace.program()
        except Retrace:
            env.restarted()
    raise NotImplementedError("export: the sizes of this program need more conditions than can be found; name fewer")


@contextlib.contextmanager
def _attributes_kept(mod):
    """A context after which the attributes of modules are what they were: what a run without values leaves there is
    of no use."""
    before = [(module, dict(vars(module))) for module in mod.modules()]
    try:
        yield
    finally:
        for module, attributes in before:
            if any(attributes.get(name) is not value for name, value in vars(module).items()):
                vars(module).clear()
                vars(module).update(attributes)


class ArgumentsError(UserError, TypeError):
    """The example's arguments are not given as a tuple."""


class UnsupportedInput(ValueError, TypeError):
    """An argument is of a class that programs have no inputs for."""


class Export:
    """One run of the module.

    whole       calls that PyTorch has an operator for are one step each (_whole.py)
    kept        names of modules whose calls keep their form (_modules.py); None: no step needs to know its modules
    defers      named sizes may be bounded by the program
    """

    whole, kept, defers = True, None, False

    def __init__(self, mod, args, kwargs, said, env):
        self.mod, self.args, self.kwargs, self.env = mod, args, kwargs, env
        self.leaves, self.in_spec = tree_flatten((args, kwargs))
        self.names, self.leaf_names = call_names(mod, args, kwargs)
        self.said, self.symbols = said, Symbols(env)
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
        self.tracer, self.user = Tracer(mod), []

    def recorded(self):
        """(arguments as the module got them, its results, their nodes, their spec); the tracer's graph is complete."""
        values = [self._argument(*each) for each in zip(self.leaf_names, self.leaves, self.said, strict=True)]
        args, kwargs = tree_unflatten(values, self.in_spec)
        mode = self.mode()
        with self.fake if self.fake is not None else contextlib.nullcontext(), mode:
            result = self.called(args, kwargs)
        results, out_spec = tree_flatten(result)
        nodes = tuple(self.tracer.of_value(x) for x in results)
        self.tracer.size_nodes.assertions(mode.shape_env)
        self.tracer.renew_constants()
        self.tracer.create_node("output", "output", (nodes,), {})
        kept = self.calls.nodes if self.kept is not None else ()
        self.tracer.graph.eliminate_dead_code(lambda node: node in kept or stays(node))
        return values, results, nodes, out_spec

    def mode(self):
        """What records the operators."""
        mode = ProxyTorchDispatchMode(self.tracer, "symbolic")
        mode.shape_env = self.env
        return mode

    def called(self, args, kwargs):
        """The module's results."""
        with detaching_steps(), Whole() if self.whole else contextlib.nullcontext():
            if self.kept is None:
                return self.mod(*args, **kwargs)
            self.calls = Calls(self.tracer, self.mod, self.kept)
            with self.calls.recorded():
                return self.mod(*args, **kwargs)

    def program(self):
        """The ExportedProgram."""
        values, results, nodes, out_spec = self.recorded()
        checks = InputChecks(self._inputs(values), self._ranges(), self._guards())
        user = [spec.arg for spec in self.user]
        outputs = [_output(x, node) for x, node in zip(results, nodes, strict=True)]
        signature = ExportGraphSignature([*self.tracer.inputs, *self.user], outputs)
        calls = self.calls.entries(ModuleCallSignature(user, [o.arg for o in outputs], self.in_spec, out_spec,
                                                       self.names))
        graph_module = GraphModule(self.tracer.root, self.tracer.graph, "GraphModule")
        graph_module.shape_env = self.env
        return ExportedProgram(graph_module, graph_module.graph, signature, dict(self.mod.state_dict(keep_vars=True)),
                               checks.ranges, calls, (self.args, self.kwargs), self.tracer.constants, checks=checks)

    def _argument(self, name, leaf, said):
        """A placeholder for one leaf, and the value that the module gets."""
        node = self.tracer.create_node("placeholder", name, (), {}, name=name)
        node.target = node.name
        value, argument = leaf, ConstantArgument(node.name, leaf)
        if isinstance(leaf, _C.Tensor):
            choose = {d: self.symbols.of(one, leaf.shape[d], f"{name}.shape[{d}]") for d, one in said.items()}
            own = leaf.detach().requires_grad_(leaf.requires_grad)  # a tensor that is given twice is two arguments
            value = self.fake.from_tensor(own, source=name, symbolic_context=_Chosen(choose))
            self.tracer.known[value] = Proxy(node, self.tracer)
            self.tracer.size_nodes.note(value)
            argument = TensorArgument(node.name)
        elif isinstance(said, DimHint) and said._name != "STATIC":
            value = self.env.create_symintnode(self.symbols.of_int(said, leaf, name))
            if isinstance(value, SymInt):
                self.tracer.size_nodes.nodes[SymInt, value.node.expr] = node
                argument = SymIntArgument(node.name)
        elif leaf is not None and not isinstance(leaf, (int, float, bool, str)):
            raise UnsupportedInput(f"export: {name} is a {type(leaf).__name__}; arguments are tensors, numbers, "
                                   "strings, None, and tuples, lists and dicts of them")
        self.user.append(InputSpec(InputKind.USER_INPUT, argument, None))
        describe(node, value)
        return value

    def _inputs(self, values):
        found = []
        for name, leaf, value in zip(self.leaf_names, self.leaves, values, strict=True):
            if isinstance(leaf, _C.Tensor):
                sizes = getattr(value, "symbolic_sizes", None) or tuple(map(constant, leaf.shape))
                found.append((name, tuple(map(self.env.replace, sizes))))
            else:
                found.append((name, value.node.expr if isinstance(value, SymInt) else ("value", leaf)))
        return found

    def _ranges(self):
        """{Symbol: ValueRanges}; ConstraintViolationError for named sizes that cannot be what they were said to be."""
        env, found = self.env, {}
        for symbol, name in sorted(self.symbols.names.items(), key=lambda each: each[0] not in env.replacements):
            if symbol in env.replacements:
                if self._settled(symbol):
                    raise OpenSizeError(_fixed(env, symbol, name, self.symbols.names))
                continue
            low, high = env.var_to_range[symbol]
            if symbol in self.symbols.must and symbol not in self.symbols.numbers:
                least, most = env.declared[symbol]
                if symbol in self.symbols.whole and (low > max(least, 2) or high < most) and not self.defers:
                    raise OpenSizeError(_bounded(name, low if low > 2 else least, high, low, most))
                low = self._lowest(symbol, max(least, low if low > 2 else 0))
            found[symbol] = ValueRanges(low, high)
        return found | {s: ValueRanges(*span) for s, span in env.var_to_range.items() if env.is_unbacked_symint(s)}

    def _settled(self, symbol):
        """Whether a symbol may not be what the program needs it to be: a number, or what another Dim says."""
        value = self.env.replace(expression(symbol))
        if value.is_number:
            return symbol in self.symbols.must
        for other in value.free_symbols:
            if value == expression(other):  # one size: both ranges hold
                low, high = self.env.var_to_range[other]
                least, most = self.env.declared.get(symbol, self.env.var_to_range[symbol])
                self.env.var_to_range[other] = max(low, least), min(high, most)
        return symbol in self.symbols.whole and bool(value.free_symbols & self.symbols.whole)

    def _lowest(self, symbol, least):
        """The least size for which all that was taken for granted of sizes of 2 and more holds as well."""
        env = self.env
        for size in range(least, 2):
            ranges = env.var_to_range | env.declared | {symbol: (size, size)}
            if not any(symbol in s.free_symbols and certain(s, ranges) is not True for s in env.assumed):
                return size if size else (0 if self._at(symbol, 1) else 2)
        return max(least, 2)

    def _at(self, symbol, size):
        ranges = self.env.var_to_range | self.env.declared | {symbol: (size, size)}
        return not any(symbol in s.free_symbols and certain(s, ranges) is not True for s in self.env.assumed)

    def _guards(self):
        """The conditions that the ranges do not imply."""
        env = self.env
        ranges = env.var_to_range
        guards = [env.replace(env.replace(g.expr)) for g in env.guards]  # what a settled size is may be settled later
        return [g for g in guards if certain(g, ranges) is None]


class _Chosen:
    """Which sizes of an argument are open: {dim: expression}."""

    def __init__(self, sizes):
        self.sizes = sizes

    def chosen(self, *_):
        """The function (dim, size) -> expression or None."""
        return lambda dim, size: self.sizes.get(dim)


def _output(value, node):
    if isinstance(value, _C.Tensor):
        return OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None)
    for kind, argument in OPEN:
        if isinstance(value, kind) and not isinstance(node, (bool, int, float)):
            return OutputSpec(OutputKind.USER_OUTPUT, argument(node.name), None)
    if value is None or isinstance(node, (int, float, bool, str)):
        return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", node), None)
    raise TypeError(f"export: a result is a {type(value).__name__}; results are tensors, numbers, strings, None, and "
                    "tuples, lists and dicts of them")


def _fixed(env, symbol, name, names):
    value = env.replacements[symbol]
    if isinstance(value, Poly) and not value.is_number:
        text = told(value)
        for other, its in names.items():
            text = text.replace(told(other), its)
        return f"export: {name} was to be open by itself, but the program needs it to be {text}; use that Dim for " \
            f"both{_suggesting(name, text)}"
    return f"export: {name} was to be open, but the program needs it to be {told(value)}; leave it out of " \
           "dynamic_shapes, or use Dim.AUTO" + _suggesting(name, told(value))


def _suggesting(name, text):
    """What `dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes` reads."""
    return f"\nSuggested fixes:\n  {name} = {text}" if name.isidentifier() else ""


def _bounded(name, least, most, low, declared):
    parts = [f"min={low}"] * (low > 2) + [f"max={most}"] * (most < declared)
    better = f"Dim('{name}', {', '.join(parts)})"
    return f"export: the program is not for all sizes that {name} was said to have ({least} to " \
           f"{'any' if declared == INFINITE else declared}); use {better}" + _suggesting(name, better)
