"""make_fx: the graph of the operators that a call really runs, below autograd and composites, found by running it.

Each operator that the dispatch mode sees becomes a call_function Node whose target is the operator itself, as in
`symbolic_trace`. Its values are those of the run ("real"), or none ("fake", "symbolic"). Shapes are those of the
example arguments, and what Python decides by them is decided; in "symbolic" they are open (_open_sizes.py), and what
Python decides becomes a guard.
"""

import contextlib
import inspect

import flambeau

from ... import _C
from ..._shown import shown
from ..._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from ..._tensor.overriding import TorchDispatchMode, _modes, disable_torch_dispatch
from ...control_flow import cond
from ...ops import OPS
from ...utils import _pytree
from .._pytree_codegen import _PyTreeCodeGen, _PyTreeInfo
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..proxy import Proxy, _stack
from ._control_flow import capture
from ._functional import recorded_by
from ._known import Known, describe, public_operator
from ._open_sizes import SizeNodes, is_open, number_placeholder, retraced

__all__ = [
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "decompose",
    "disable_proxy_modes_tracing",
    "dispatch_trace",
    "get_innermost_proxy_mode",
    "get_isolated_graphmodule",
    "get_proxy_mode",
    "make_fx",
    "maybe_handle_decomp",
]


class PythonKeyTracer(Tracer):
    """The Tracer of make_fx: modules are run through, parameters become attributes of the result."""

    def __init__(self):
        super().__init__(autowrap_modules=())
        self.known = Known()
        self.root = flambeau.nn.Module()
        self.graph = Graph()
        self.tensor_attrs, self._kept = {}, []
        self.size_nodes = SizeNodes(self)
        self._made, self._lifted = {}, []

    def branch(self):
        """A Tracer for a branch of control flow."""
        return type(self)()

    def call_module(self, m, forward, args, kwargs):
        """Runs it."""
        return forward(*args, **kwargs)

    def is_leaf_module(self, m, module_qualified_name):
        """None is."""
        return False

    def create_arg(self, a):
        """A value as an argument: parameters keep one name each."""
        if isinstance(a, flambeau.nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_param_constant")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def of_value(self, value):
        """A value of the run as an argument of a Node: tensors that the graph makes are their Nodes."""
        def leaf(x):
            if isinstance(x, _C.Tensor):
                proxy = self.known.get(x)
                return proxy.node if proxy is not None else self._constant_of(x)
            return self.size_nodes.of(x) if is_open(x) else x

        return self.create_arg(_mapped(leaf, value))

    def _constant_of(self, tensor):
        node = self.size_nodes.zeros_of(tensor) or self.create_arg(tensor)
        describe(node, tensor)
        self.known[tensor] = Proxy(node, self)
        self.remember(node, tensor)
        return node

    def made(self, tensor):
        """Says that the program has made a tensor of values of Python."""
        self._made[id(tensor)] = tensor

    def remember(self, node, constant):
        """Keeps the values of a constant that the program has made, in case it writes into it."""
        if id(constant) in self._made:
            with disable_torch_dispatch():
                self._lifted.append((node, constant, constant._version, constant.detach().clone()))

    def renew_constants(self):
        """Where the program has made a constant and writes into it, each run of the graph begins with a copy."""
        for node, constant, version, values in self._lifted:
            if constant._version == version:
                continue
            self.set_constant(node, values)
            with self.graph.inserting_before(node.next if node.op == "get_attr" else self._first_step()):
                copied = self.graph.create_node("call_function", OPS["clone"], (node,), {})
            copied.meta = dict(node.meta)
            node.replace_all_uses_with(copied, delete_user_cb=lambda user, copied=copied: user is not copied)

    def _first_step(self):
        return next(n for n in self.graph.nodes if n.op != "placeholder")

    def set_constant(self, node, values):
        """Gives the constant of a Node other values."""
        setattr(self.root, node.target, values)


def _mapped(leaf, value):
    if isinstance(value, (tuple, list)):
        items = [_mapped(leaf, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else list(items) if isinstance(
            value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _mapped(leaf, item) for key, item in value.items()}
    return leaf(value)


#: what derivatives of complex functions are made of -> what it is for real numbers, and how it is recorded for those
_OF_REALS = {"_mul_conj": "mul", "_div_conj": "div", "_zero": "zeros_like"}


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Inside, every operator becomes a Node of tracer.graph, and runs.

    tracing_mode: "real", "fake" or "symbolic".
    decomposition_table: {operator: function that runs instead, and is recorded}.
    """

    def __init__(self, tracer, tracing_mode, decomposition_table=None, record_stack_traces=False):
        super().__init__()
        self.tracer, self.tracing_mode = tracer, tracing_mode
        self.decomposition_table = _by_operator(decomposition_table)
        self.record_stack_traces = record_stack_traces
        self.enable_tracing = True
        self.shape_env = None

    def higher_order(self, op, functions, operands):
        """The result of a control flow operator, which becomes one Node with graphs of its functions as arguments; None
        where it is to run step by step."""
        if self.enable_tracing:
            return capture(self, op, functions, operands)
        if op is cond and self.tracing_mode != "real":
            return functions[0](*operands[1])  # without values: both functions give the same shapes
        return None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.enable_tracing:
            return func(*args, **kwargs)
        if getattr(func, "name", "") == "_local_scalar_dense":
            return self._value(func, args)
        if getattr(func, "name", "") in _OF_REALS and not any(x.is_complex() for x in args if isinstance(x, _C.Tensor)):
            func = OPS[_OF_REALS[func.name]]
        if self.shape_env is not None:
            args = self.tracer.size_nodes.recognised(func, args)
        target = public_operator(func) if isinstance(func, _C.Op) else func
        replaced = self.decomposition_table.get(target) or self.decomposition_table.get(func)
        if replaced is not None:
            given, named = _without_defaults(func, args, kwargs)
            with self:
                result = replaced(*given, **named)
            if result is not NotImplemented:
                return result
        return self.record(target, func, args, kwargs)

    def record(self, target, function, args, kwargs):
        """Adds the Node of a call, and runs it."""
        args, kwargs = _without_defaults(function, args, kwargs)
        tracer = self.tracer
        given, named = _as_of(target, function, args, kwargs)
        node = tracer.create_node("call_function", target, tracer.of_value(tuple(given)), tracer.of_value(dict(named)))
        if self.record_stack_traces:
            node.stack_trace = _stack()
        result = function(*args, **kwargs)
        return self.track(result, node)

    def track(self, result, node, tracer=None):
        """Says that a Node (of `tracer`, if it is another's) stands for a result; items of results are Nodes too."""
        tracer = self.tracer if tracer is None else tracer
        proxy = Proxy(node, tracer)
        describe(node, result)
        if isinstance(result, _C.Tensor):
            tracer.known[result] = proxy
            tracer.size_nodes.note(result)
        elif isinstance(result, (tuple, list, dict)):
            for k, item in result.items() if isinstance(result, dict) else enumerate(result):
                if isinstance(item, (_C.Tensor, tuple, list, dict)):
                    self.track(item, proxy[k].node, tracer)
        return result

    def _value(self, func, args):
        """The number that a wrapper holds: fake tensors have none."""
        if isinstance(args[0], FakeTensor):
            raise DataDependentOutputException(func)
        return func(*args)

    def after_making(self, tensor):
        """Tells the tracer."""
        if self.enable_tracing:
            self.tracer.made(tensor)

    def before_reading(self, tensor):
        """RuntimeError where Python reads a value that other arguments would change."""
        if self.enable_tracing and depends_on_arguments(self.tracer.known.get(tensor)):
            raise RuntimeError("make_fx: the program reads a value that depends on its arguments (item(), bool(), "
                               "tolist() and the like), which the graph would take for a constant; use flambeau.where "
                               "or flambeau.cond")


def depends_on_arguments(proxy):
    """Whether an argument of the graph leads to this value."""
    seen, pending = set(), [proxy.node] if proxy is not None else []
    while pending:
        node = pending.pop()
        if node.op == "placeholder":
            return True
        if node not in seen:
            seen.add(node)
            pending.extend(node.all_input_nodes)
    return False


def _by_operator(table):
    return {public_operator(getattr(key, "_op", key)) if isinstance(getattr(key, "_op", key), _C.Op) else key: function
            for key, function in (table or {}).items()}


def _without_defaults(function, args, kwargs):
    """Arguments without those at the end, by place, that are the operator's defaults."""
    if not isinstance(function, _C.Op):
        return args, kwargs
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return args, kwargs
    args = list(args)
    while args and len(args) <= len(parameters):
        default = parameters[len(args) - 1].default
        if is_open(args[-1]):
            break
        if default is inspect.Parameter.empty or type(args[-1]) is not type(default) or args[-1] != default:
            break
        args.pop()
    return tuple(args), kwargs


def _as_of(target, function, args, kwargs):
    """The arguments of a form (`var.correction`) as the operator that it is a form of takes them: by their names from
    where the places differ."""
    if target is function or not isinstance(function, _C.Op) or getattr(target, "kind", None) != "composite":
        return args, kwargs
    own, its = (list(inspect.signature(op).parameters) for op in (function, target))
    same = next((k for k, (a, b) in enumerate(zip(own, its)) if a != b), len(args))
    return args[:same], {**dict(zip(own[same:], args[same:])), **kwargs}


# ---- modes that are active -------------------------------------------------------------------------------------------

def get_innermost_proxy_mode():
    """The mode that records here, or None."""
    return next((m for m in reversed(_modes.dispatch) if isinstance(m, ProxyTorchDispatchMode)), None)


get_proxy_mode = get_innermost_proxy_mode
recorded_by(get_innermost_proxy_mode)


@contextlib.contextmanager
def disable_proxy_modes_tracing():
    """Inside, operators run without being recorded."""
    mode = get_innermost_proxy_mode()
    before = mode.enable_tracing if mode is not None else None
    if mode is not None:
        mode.enable_tracing = False
    try:
        yield mode
    finally:
        if mode is not None:
            mode.enable_tracing = before


_tables = []


@contextlib.contextmanager
def decompose(decomposition_table):
    """Inside, make_fx uses this table of decompositions where it is given none."""
    _tables.append(decomposition_table or {})
    try:
        yield _tables[-1]
    finally:
        _tables.pop()


def maybe_handle_decomp(proxy_mode, op, args, kwargs):
    """The decomposition's result for a call, or NotImplemented."""
    function = proxy_mode.decomposition_table.get(public_operator(op))
    if function is None:
        return NotImplemented
    with proxy_mode:
        return function(*args, **kwargs)


# ---- make_fx ---------------------------------------------------------------------------------------------------------

def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=True, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True,
            record_stack_traces=False, proxy_module_inputs=False):
    """A function that gives, for example arguments, the GraphModule of the operators that f(*args) runs.

    Gradients that f takes are in the graph, operators one by one; views and writes stay views and writes.

    decomposition_table  {operator: function of operators to record instead}
    tracing_mode         "real" runs f with values; "fake" without: nothing is computed, and asking for a value is an
                         error; "symbolic" so too, with sizes left open: the graph is for all sizes that satisfy
                         `gm.shape_env.guards`. Example sizes of 0 and 1 stay fixed, equal ones stay equal. f may run
                         again, when an operator shows that a size must be fixed, or equal to another
    record_stack_traces  Nodes know the lines that made them
    record_module_stack  Nodes know the modules that ran them, where f is a Module
    pre_dispatch         not available: what autograd sees, `symbolic_trace` records

    >>> import flambeau
    >>> from flambeau.fx.experimental.proxy_tensor import make_fx
    >>> def slope(x):
    ...     return flambeau.autograd.grad((x * x).sum(), x)[0]
    >>> gm = make_fx(slope)(flambeau.ones(2, requires_grad=True))
    >>> gm(flambeau.tensor([1.0, 3.0]))
    tensor([2., 6.])

    >>> gm = make_fx(lambda x: x.view(x.shape[0] * 2, -1), tracing_mode="symbolic")(flambeau.ones(3, 4))
    >>> gm(flambeau.ones(5, 8)).shape, gm.shape_env.guards
    (torch.Size([10, 4]), [])
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"make_fx: tracing_mode must be 'real', 'fake' or 'symbolic', got {shown(tracing_mode)}")
    for name, value, usual in (("pre_dispatch", pre_dispatch, False),
                               ("proxy_module_inputs", proxy_module_inputs, False),
                               ("_allow_fake_constant", _allow_fake_constant, False),
                               ("_error_on_data_dependent_ops", _error_on_data_dependent_ops, True)):
        if value is not usual:
            raise NotImplementedError(f"make_fx: {name}={value} is not available; leave it out")
    table = decomposition_table if decomposition_table is not None or not _tables else _tables[-1]

    def traced(*args):
        def trace(fake):
            return _trace(f, args, tracing_mode, table, record_stack_traces, record_module_stack, fake)

        if tracing_mode == "symbolic":
            return retraced(trace, _allow_non_fake_inputs)
        return trace(FakeTensorMode(allow_non_fake_inputs=_allow_non_fake_inputs) if tracing_mode == "fake" else None)

    traced.__name__ = getattr(f, "__name__", type(f).__name__)
    return traced


def _names_of(f, args):
    """A name for each argument tree: those of f's parameters, with a number."""
    try:
        code = inspect.unwrap(f.forward if isinstance(f, flambeau.nn.Module) else f).__code__
        names = list(code.co_varnames[:code.co_argcount])
        names = names[1:] if names and names[0] == "self" else names
    except AttributeError:
        names = []
    return [names[k] if k < len(names) else "arg" for k in range(len(args))]


def _trace(f, args, tracing_mode, table, stack_traces, module_stack, fake):
    tracer = PythonKeyTracer()
    leaves, spec = _pytree.tree_flatten(args)
    names = [name for name, arg in zip(_names_of(f, args), args, strict=True)
             for _ in _pytree.tree_leaves(arg)]
    values = [_argument(tracer, name, leaf, fake) for name, leaf in zip(names, leaves, strict=True)]
    inputs = _pytree.tree_unflatten(values, spec)
    root = _owner(f)
    if root is not None:
        tracer.root = _with_attributes(root)
    mode = ProxyTorchDispatchMode(tracer, tracing_mode, table, stack_traces)
    mode.shape_env = fake.shape_env if fake is not None else None
    hooks = _module_hooks(tracer, root) if module_stack and root is not None else contextlib.nullcontext()
    with fake if fake is not None else contextlib.nullcontext(), mode, hooks:
        result = f(*inputs)
    result = tracer.of_value(result)
    tracer.size_nodes.assertions(mode.shape_env)
    tracer.renew_constants()
    tracer.create_node("output", "output", (result,), {})
    if not all(_pytree.tree_is_leaf(arg) for arg in args):
        info = _PyTreeInfo([f"arg{k}" for k in range(len(args))], spec_of(args), None)
        tracer.graph.set_codegen(_PyTreeCodeGen(info))
    tracer.graph.eliminate_dead_code(lambda node: node.op == "placeholder" or (node.is_impure(impure_random=True)
                                     and node.op != "get_attr"))
    name = getattr(f, "__name__", type(f).__name__)
    gm = GraphModule(tracer.root, tracer.graph, name if name.isidentifier() else "GraphModule")
    if mode.shape_env is not None:
        gm.shape_env = mode.shape_env
    return gm


def _owner(f):
    found = f if isinstance(f, flambeau.nn.Module) else getattr(f, "__self__", None)
    return found if isinstance(found, flambeau.nn.Module) else None


def _with_attributes(root):
    """A Module with the tensors and submodules of another, for constants to be added to."""
    holder = flambeau.nn.Module()
    for table in ("_parameters", "_buffers", "_modules"):
        vars(holder)[table] = dict(vars(root)[table])
    return holder


def _argument(tracer, name, leaf, fake):
    """A placeholder for one leaf, and the value that the program gets."""
    node = tracer.create_node("placeholder", f"{name}_1", (), {}, name=f"{name}_1")
    if node.name != node.target:
        node.target = node.name
    value = fake.from_tensor(leaf, source=name) if fake is not None and isinstance(leaf, _C.Tensor) else leaf
    if isinstance(value, _C.Tensor):
        tracer.known[value] = Proxy(node, tracer)
        tracer.size_nodes.note(value)
    elif fake is not None and fake.shape_env is not None:
        value = number_placeholder(tracer, fake.shape_env, node, value)
    describe(node, value)
    return value


def spec_of(args):
    """The spec of a list of arguments, as generated code takes them apart."""
    return _pytree.tree_structure(list(args))


@contextlib.contextmanager
def _module_hooks(tracer, root):
    """Inside, tracer.module_stack is the path of the modules that run."""
    names = {module: name for name, module in root.named_modules()}

    def enter(module, _):
        if module in names:
            tracer.module_stack[names[module]] = (names[module], type(module))

    def leave(module, *_):
        tracer.module_stack.pop(names.get(module), None)

    handles = [h for m in names for h in (m.register_forward_pre_hook(enter),
                                          m.register_forward_hook(leave, always_call=True))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def dispatch_trace(root, tracer, concrete_args=None):
    """The GraphModule of a trace by this Tracer."""
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, getattr(root, "__name__", type(root).__name__))


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """The GraphModule of func(*args, **kwargs), traced apart from any trace that is running; it takes the tensors and
    other leaves of args and kwargs one by one."""
    leaves, spec = _pytree.tree_flatten((args, kwargs))

    def flat(*values):
        its_args, its_kwargs = _pytree.tree_unflatten(list(values), spec)
        return func(*its_args, **its_kwargs)

    with disable_proxy_modes_tracing():
        return make_fx(flat, decomposition_table, tracing_mode)(*leaves)
