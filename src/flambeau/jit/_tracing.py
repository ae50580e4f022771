"""jit.trace: a program of the operators that one run of a module or function calls."""

import copy
import functools
import warnings

import flambeau

from .. import _C
from .._shown import shown
from .._symbolic.shape_env import Retrace, ShapeEnv
from ..export import Dim
from ..export._real import RealExport
from ..export._trace import Export
from ..export.graph_signature import InputKind
from ..nn import Module
from ..ops import OPS
from ..utils import _pytree
from ._calls import CallWriter, Methods, Watched, paths, step_text
from ._classes import Classes
from ._comparing import compared, name_of
from ._kept import kept_calls, note_decisions
from ._modules import ScriptFunction, ScriptModule, TopLevelTracedModule
from ._scripting import Script, attributes_in
from ._state import TracerWarning, tracing
from ._writing import assembled

_RUNS = 12  # until a program's conditions on its sizes are known; each finds one more


def _warn():
    warnings.warn("jit.trace: the program reads a value of a tensor (item(), bool() and the like), which becomes a "
                  "constant of the trace: other inputs may need another", TracerWarning, stacklevel=5)


class _WithCalls:
    """A run that notes the calls of inner modules."""

    def called(self, args, kwargs):
        """The module's results."""
        self.watched = Watched(self.mod, self.tracer)
        with self.watched.watching(), kept_calls(self.mod):
            return super().called(args, kwargs)

    def is_there(self, node):
        """Whether a Node is still one of the graph: what nothing uses is gone."""
        return node in self.nodes

    @functools.cached_property
    def nodes(self):
        """All Nodes of the graph."""
        return set(self.tracer.graph.nodes)


class _Trace(_WithCalls, Export):
    """One run of a module on tensors without values."""


class _RealTrace(_WithCalls, RealExport):
    """One run of a module on its arguments."""


def _doubled(x):
    """An example like x with two of what it has one, in its first dimension."""
    return x.detach().expand(2, *x.shape[1:]).requires_grad_(x.requires_grad) if x.dim() > 1 and x.shape[0] == 1 else x


def _recorded(mod, args, kwargs):
    """The trace of a run, and what `recorded` says of it: with open sizes, or the example's where values decide."""
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    for leaf in leaves:
        if not isinstance(leaf, _C.Tensor):
            raise RuntimeError(f"jit.trace: example inputs are tensors, and tuples, lists and dicts of them; got a "
                               f"{type(leaf).__name__}")
    try:
        return _with_any_batch(mod, args, kwargs, leaves, spec)
    except Exception:  # values decide, or the program does not run without: it is run with them
        trace = _RealTrace(mod, args, kwargs, _warn)
        with flambeau.no_grad():
            return trace, trace.recorded()


def _with_any_batch(mod, args, kwargs, leaves, spec):
    """A trace with open sizes; a first size of 1 is open where the module does the same for 2."""
    larger = [_doubled(leaf) for leaf in leaves]
    if any(a is not b for a, b in zip(larger, leaves, strict=True)):
        try:
            found = _with_open_sizes(mod, *_pytree.tree_unflatten(larger, spec), leaves)
            if _first_is_open(found[0], leaves, 1) and _steps(found) == _steps(_with_sizes(mod, args, kwargs, 0)):
                return found
        except Exception:  # the size of 1 has to be 1
            pass
    return _with_open_sizes(mod, args, kwargs, leaves)


def _with_open_sizes(mod, args, kwargs, leaves):
    """A trace with all sizes open; with the first ones alone where the program settles them otherwise."""
    try:
        found = _with_sizes(mod, args, kwargs, None)
        if _first_is_open(found[0], leaves, 0):
            return found
    except NotImplementedError:
        found = None
    other = _with_sizes(mod, args, kwargs, 1)
    return other if found is None or _first_is_open(other[0], leaves, 0) else found


def _with_sizes(mod, args, kwargs, dims):
    """A trace in which so many sizes of each tensor are open; None: all."""
    said = [dict.fromkeys(range(leaf.dim())[:dims], Dim.AUTO) for leaf in _pytree.tree_leaves((args, kwargs))]
    env = ShapeEnv(duck_shape=False)
    env.restarts = True
    for _ in range(_RUNS):
        try:
            trace = _Trace(mod, args, kwargs, said, env)
            return trace, trace.recorded()
        except Retrace:
            env.restarted()
    raise NotImplementedError("jit.trace: the sizes of this program need more conditions than can be found")


def _first_is_open(trace, leaves, size):
    """Whether the first sizes of inputs stay open in a trace: all of them, or (1) those that are 1 in the example."""
    asked = {f"{name}.shape[0]" for name, leaf in zip(trace.leaf_names, leaves, strict=True)
             if leaf.dim() > 1 and size in (0, leaf.shape[0])}
    return not any(name in asked and symbol in trace.env.replacements for symbol, name in trace.symbols.names.items())


def _steps(found):
    """The operators of a trace, apart from those that read sizes, and from expand, which a size of 1 does not need."""
    return [node.target for node in found[0].tracer.graph.nodes
            if node.op == "call_function" and isinstance(node.target, _C.Op) and node.target is not OPS["expand"]]


# ---- the text of a trace ---------------------------------------------------------------------------------------------

def _arguments(trace):
    """(declarations of the arguments, {node: expression})."""
    by_name = {node.name: node for node in trace.tracer.graph.nodes if node.op == "placeholder"}
    users = [by_name[spec.arg.name] for spec in trace.user]
    args, kwargs = _pytree.tree_unflatten(users, trace.in_spec)
    names = trace.names
    declared, places = [], {}
    for name, value in zip(names, (*args, *kwargs.values()), strict=True):
        name = name if name not in ("self", "torch", "ops") else f"{name}_"
        leaves, spec = _pytree.tree_flatten(value)
        declared.append(f"{name}: {assembled(spec, [('', 'Tensor')] * len(leaves))[1]}")
        for path, node in paths(value):
            places[node] = name + "".join(map(step_text, path))
    return declared, places


def _held(trace, constants, function):
    """{node: names, or the expression of a constant} of the tensors that the program has beside its arguments."""
    by_name = {node.name: node for node in trace.tracer.graph.nodes if node.op == "placeholder"}
    found, names = {}, {}
    for name, value in (*trace.mod.named_parameters(remove_duplicate=False),
                        *trace.mod.named_buffers(remove_duplicate=False)):
        names.setdefault(id(value), []).append(name)
    values = {name: each for each in names.values() for name in each}
    for spec in trace.tracer.inputs:
        node = by_name[spec.arg.name]
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            found[node] = values[spec.target]
            continue
        value = trace.tracer.constants[spec.target]
        if node.users and function and _wants_gradients(trace, node):
            raise RuntimeError("jit.trace: a function's program holds no tensor that requires gradients; make it the "
                               "method of a Module that has it as a Parameter, or use its detach()")
        if node.users or any(node in (o.args[0] if o.op == "output" else ()) for o in trace.tracer.graph.nodes):
            found[node] = constants.of(value.detach())
    return found


def _wants_gradients(trace, node):
    """Whether the tensor behind a placeholder requires gradients."""
    return any(tensor.requires_grad for tensor, proxy in trace.tracer.known.tensors() if proxy.node is node)


def _method(name, trace, recorded, methods, receiver=None):
    """The text of a function or method; those of inner modules are added to `methods`."""
    _, _, nodes, out_spec = recorded
    declared, places = _arguments(trace)
    trace.held = _held(trace, methods.constants, receiver is None)
    writer = CallWriter(trace.tracer.graph, trace, trace.watched.tree(), methods)
    writer.names.update(places)
    writer.used.update(text.partition(":")[0] for text in declared)
    writer.steps()
    result, kind = writer.returned(nodes, out_spec)
    assert not writer.more, writer.more
    for call in trace.watched.without_steps():
        if id(call.module) not in methods.texts:
            CallWriter(trace.tracer.graph, trace, call, methods, writer).as_method()
    head = ", ".join([f"self: {receiver}"] * (receiver is not None) + declared)
    lines = [f"def {name}({head}) -> {kind}:", *(f"  {line}" for line in writer.lines), f"  return {result}"]
    return "\n".join(lines) + "\n"


class _Function(Module):
    """A function as a module's forward, whose arguments have the function's names."""

    def __init__(self, function):
        super().__init__()
        self.__dict__["forward"] = function


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5,
          strict=True, _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None,
          _store_inputs=True):
    """The operators that `func(*example_inputs)` calls, as a program: a module like `func`, or a function.

    `func` runs several times. What Python decides on the way is decided for good. Sizes stay open: they are those of
    later inputs, apart from sizes of 1 other than the first of a tensor, and from those that the program decides by.
    Values that Python reads become constants, and a TracerWarning says so.

    func                  a Module, whose parameters and buffers the result shares, or a function of tensors
    example_inputs        a tensor, or a tuple of arguments: tensors, and tuples, lists and dicts of them
    example_kwarg_inputs  arguments by name instead
    check_trace           calls the program and `func` with the inputs and compares the results, up to check_tolerance:
                          a TracerWarning where they differ
    check_inputs          a list of more inputs to compare with
    strict                accepted: results may be dicts and lists either way
    others                not available: leave them out

    >>> import flambeau
    >>> double = flambeau.jit.trace(lambda x: x * 2, flambeau.ones(3))
    >>> double(flambeau.ones(2, 2))
    tensor([[2., 2.],
            [2., 2.]])
    """
    if isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if not callable(func):
        raise TypeError(f"jit.trace: expected a function or Module, got {shown(func)}")
    if _force_outplace or _module_class is not None or _compilation_unit is not None:
        raise NotImplementedError("jit.trace: _force_outplace, _module_class and _compilation_unit are not available; "
                                  "leave them out")
    by_name = example_kwarg_inputs is not None
    if (example_inputs is None) != by_name:
        raise RuntimeError("jit.trace: give example_inputs, or example_kwarg_inputs, one of the two")
    given = example_kwarg_inputs if by_name else example_inputs
    checks = {"check_trace": check_trace, "check_inputs": check_inputs, "check_tolerance": check_tolerance}
    owner = getattr(func, "__self__", None)
    if isinstance(func, Module) or isinstance(owner, Module):
        name = "forward" if isinstance(func, Module) else func.__name__
        made = trace_module(func if isinstance(func, Module) else owner, {name: given}, example_inputs_is_kwarg=by_name,
                            **checks)
        return made if name == "forward" else getattr(made, name)
    args, kwargs = _given(given, by_name)
    methods = Methods(Script())
    name = name_of(func, "traced")
    with tracing():
        trace, recorded = _recorded(_Function(func), args, kwargs)
    text = _method(name, trace, recorded, methods)
    qualified = methods.script.unused("__torch__", name)
    text = text.replace(f"def {name}(", f"def {qualified.rpartition('.')[2]}(", 1)
    methods.script.texts.setdefault("__torch__", []).append(text)
    program = methods.script.program("<trace>")
    made = ScriptFunction(program.find(qualified), program, qualified)
    compared(func, made, _all_inputs(given, check_inputs, by_name) if check_trace else [], check_tolerance, None)
    return made


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
                 _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
                 _store_inputs=True):
    """A module with a program for each method that `inputs` names: {"forward": example inputs, …}; see `trace`.

    >>> import flambeau
    >>> net = flambeau.jit.trace_module(flambeau.nn.ReLU(), {"forward": flambeau.ones(2)})
    >>> net(flambeau.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    if not isinstance(mod, Module):
        raise AttributeError(f"jit.trace_module: expected a Module, got {shown(mod)}")
    if not isinstance(inputs, dict) or not inputs:
        raise AttributeError("jit.trace_module: inputs must be a dict: {name of a method: example inputs}")
    if _force_outplace or _module_class is not None or _compilation_unit is not None:
        raise NotImplementedError("jit.trace_module: _force_outplace, _module_class and _compilation_unit are not "
                                  "available; leave them out")
    methods, traces = Methods(Script()), {}
    note_decisions(mod)
    with tracing():
        for name, given in inputs.items():
            traces[name] = _recorded(_with_forward(mod, name), *_given(given, example_inputs_is_kwarg))
    text = "".join(_method(name, *both, methods, "SELF") for name, both in traces.items())
    script = methods.script
    classes = _classes(mod, text, methods)
    classes.of(mod)
    program = script.program("<trace>")
    made = program.module(mod, classes, TopLevelTracedModule, names=script.kinds.names)
    if check_trace:
        for name, given in inputs.items():
            more = [each[name] if isinstance(each, dict) and each.keys() == inputs.keys() else each
                    for each in check_inputs or ()]  # of each method, or of the only one
            compared(getattr(mod, name), getattr(made, name), _all_inputs(given, more, example_inputs_is_kwarg),
                     check_tolerance, mod)
    return made


def _classes(mod, text, methods):
    """The classes of a traced module and those inside: with the methods of the trace, or as they are scripted."""
    script = methods.script

    def merged(module):
        return None if methods.text(module) else script.merged_name(module)

    def attributes(module):
        return attributes_in(module, script.kinds) if script.text(module) or merged(module) else {}

    return Classes(lambda module: text if module is mod else script.text(module) or methods.text(module), attributes,
                   script.texts, merged, script.listed)


def _with_forward(mod, name):
    """A module whose forward is a method of `mod`, with the same tensors."""
    if name == "forward":
        return mod
    found = copy.copy(mod)
    found.__dict__["forward"] = getattr(mod, name)
    return found


def _given(inputs, by_name):
    """(args, kwargs) of example inputs."""
    if by_name:
        return (), dict(inputs)
    if isinstance(inputs, (_C.Tensor, dict)):
        return (inputs,), {}
    return tuple(inputs), {}


def _all_inputs(given, more, by_name):
    return [_given(each, by_name) for each in (given, *(more or ()))]
