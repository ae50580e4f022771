"""Control flow inside traces: branches and bodies become graphs, and the operator one Node with them as arguments.

A branch is traced on tensors without values. What it takes from outside, beyond its arguments, becomes one more
argument of the Node; both branches of a `cond` then take the same.
"""

import operator
from contextlib import contextmanager

import flambeau

from ... import _C, control_flow
from ..._shown import shown
from ..._subclasses.fake_tensor import FakeTensorMode
from ..._symbolic.numbers import SymInt
from ...utils import _pytree
from ..graph_module import GraphModule
from ._known import describe


class _Outside:
    """Tensors of the outer trace that branches use, in order."""

    def __init__(self, tracer):
        self.tracer = tracer
        self.tensors = []

    def index(self, tensor):
        """Which of them a tensor is; it becomes one. None for a tensor that the outer trace does not know."""
        proxy = self.tracer.known.get(tensor)
        if proxy is None:
            return None
        for k, known in enumerate(self.tensors):
            if self.tracer.known.get(known) is proxy:
                return k
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def capture(mode, op, functions, operands):
    """The result of a control flow operator inside make_fx; None where it is to run step by step."""
    if op is control_flow.cond:
        return _cond(mode, functions, operands)
    leaves = [x for x in _pytree.tree_leaves(operands) if isinstance(x, _C.Tensor)]
    if _C.is_grad_enabled() and any(x.requires_grad for x in leaves) and op is not control_flow.map:
        if op is control_flow.while_loop:
            raise NotImplementedError("while_loop: inside make_fx it has no derivative; run it on detached tensors, or "
                                      "use scan, whose length is known")
        _, xs, dim = operands[:3]
        if any(isinstance(x.shape[dim], SymInt) for x in _pytree.tree_leaves(xs)):
            raise NotImplementedError("scan: inside make_fx its derivative needs a length that is not open; trace with "
                                      "static sizes, or run it on detached tensors")
        return None  # its length is known: the steps are recorded one by one, and differentiated so
    return {control_flow.while_loop: _while_loop, control_flow.scan: _scan, control_flow.map: _map}[op](
        mode, functions, operands)


@contextmanager
def _own_assertions(tracer, env):
    """What a branch states about values, its graph asserts."""
    if env is None:
        yield
        return
    before, env.assertions = env.assertions, []
    try:
        yield
        tracer.size_nodes.assertions(env)
    finally:
        env.assertions = before


class _Branch:
    """The graph of one function on fake arguments."""

    def __init__(self, mode, function, args, outside):
        self.fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=mode.shape_env, static_shapes=True)
        self.outside = outside
        self.tracer = mode.tracer.branch()
        self.values = [self.fake.from_tensor(x) if isinstance(x, _C.Tensor) else x for x in args]
        for k, value in enumerate(self.values):
            node = self.tracer.create_node("placeholder", f"arg{k}_1", (), {})
            mode.track(value, node, self.tracer)
            _number_of(self.tracer, value, node)
        self.lifted = {}
        self.tracer._constant_of = self._from_outside
        inner = type(mode)(self.tracer, "fake", mode.decomposition_table, mode.record_stack_traces)
        inner.shape_env = mode.shape_env
        with self.fake, inner, _own_assertions(self.tracer, mode.shape_env):
            self.result = function(*self.values)
        self.leaves, self.spec = _pytree.tree_flatten(self.result)
        self.tracer.renew_constants()
        self.output = [self.tracer.of_value(x) for x in self.leaves]

    def _from_outside(self, tensor):
        """A tensor that the branch did not make: an argument more, or a constant."""
        k = self.outside.index(tensor)
        if k is None:
            return type(self.tracer)._constant_of(self.tracer, tensor)
        if k not in self.lifted:
            self.lifted[k] = self._placeholder(k)
        return self.lifted[k]

    def _placeholder(self, k):
        graph = self.tracer.graph
        last = [n for n in graph.nodes if n.op == "placeholder"]
        with graph.inserting_after(last[-1]) if last else graph.inserting_before():
            node = graph.placeholder(f"outside{k}_1")
        describe(node, self.outside.tensors[k])
        return node

    def module(self, name):
        """The GraphModule, which takes every tensor from outside."""
        for k in range(len(self.outside.tensors)):
            if k not in self.lifted:
                self.lifted[k] = self._placeholder(k)
        for before, after in zip(range(len(self.lifted)), range(1, len(self.lifted)), strict=False):
            self.lifted[before].append(self.lifted[after])
        self.tracer.graph.output(_pytree.tree_unflatten(self.output, self.spec))
        return GraphModule(self.tracer.root, self.tracer.graph, name)


def _number_of(tracer, number, node):
    """Says that a Node stands for an open number."""
    if isinstance(number, SymInt):
        tracer.size_nodes.nodes.setdefault((SymInt, number.node.expr), node)


def _attribute(mode, prefix, module):
    """The get_attr Node of a GraphModule that becomes an attribute of the traced root."""
    tracer = mode.tracer
    name = tracer.get_fresh_qualname(f"{prefix}_")
    setattr(tracer.root, name, module)
    return tracer.create_node("get_attr", name, (), {})


def _node(mode, op, args, result, kwargs=None):
    """Adds the operator's Node, whose result is known."""
    node = mode.tracer.create_node("call_function", op, args, kwargs or {})
    return mode.track(result, node)


def _alike(branches):
    """Branches must give the same structure, shapes and dtypes."""
    first, second = branches
    if first.spec != second.spec:
        raise RuntimeError(f"cond: true_fn and false_fn must return the same structure, got {first.spec} and "
                           f"{second.spec}")
    for a, b in zip(first.leaves, second.leaves, strict=True):
        if isinstance(a, _C.Tensor) != isinstance(b, _C.Tensor) or (
                isinstance(a, _C.Tensor) and (a.shape, a.dtype) != (b.shape, b.dtype)):
            raise RuntimeError("cond: true_fn and false_fn must return tensors of the same shapes and dtypes, got "
                               f"{_short(a)} and {_short(b)}")


def _short(x):
    return f"{x.dtype} {list(x.shape)}" if isinstance(x, _C.Tensor) else repr(x)


def _cond(mode, functions, operands):
    pred, args = operands
    leaves, spec = _pytree.tree_flatten(args)

    def flat(function):
        return lambda *values: function(*_pytree.tree_unflatten(list(values), spec))

    outside = _Outside(mode.tracer)
    branches = [_Branch(mode, flat(f), leaves, outside) for f in functions]
    _alike(branches)
    modules = [b.module(name) for b, name in zip(branches, ("true_graph", "false_graph"), strict=True)]
    values = [*leaves, *outside.tensors]
    wanted = [k for k, x in enumerate(values) if isinstance(x, _C.Tensor) and x.requires_grad]
    if _C.is_grad_enabled() and wanted:
        result = _DifferentiableCond.apply(mode, pred, modules, wanted, *values)
        return _pytree.tree_unflatten(list(result), branches[0].spec)
    return _record_cond(mode, pred, modules, values)


def _record_cond(mode, pred, modules, values):
    taken = [_attribute(mode, name, m) for name, m in zip(("true_graph", "false_graph"), modules, strict=True)]
    args = (mode.tracer.of_value(pred), *taken, mode.tracer.of_value(tuple(values)))
    return _node(mode, control_flow.cond, args, _computed(mode, lambda: control_flow.cond(pred, *modules, values),
                                                         lambda: modules[0](*values)))


def _computed(mode, real, fake):
    """The result: of values where there are some, else of a graph that gives the same shapes."""
    before, mode.enable_tracing = mode.enable_tracing, False
    try:
        with flambeau.no_grad():
            return real() if mode.tracing_mode == "real" else fake()
    finally:
        mode.enable_tracing = before


def _derivative(function, wanted, n):
    """The gradients of `function` by the arguments `wanted`, as a function of n gradients of its results and of its
    arguments."""
    def run(*arguments):
        inner = [x.detach().requires_grad_() if k in wanted and isinstance(x, _C.Tensor) else x
                 for k, x in enumerate(arguments[n:])]
        with flambeau.enable_grad():
            outputs = _pytree.tree_leaves(function(*inner))
        pairs = [(o, g) for o, g in zip(outputs, arguments[:n], strict=True) if o.requires_grad]
        inputs = [inner[k] for k in wanted]
        if not pairs:
            return [flambeau.zeros_like(x) for x in inputs]
        found = flambeau.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
        return [flambeau.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True)]

    return run


class _DifferentiableCond(flambeau.autograd.Function):
    """A captured cond whose derivative is a cond of the branches' derivatives."""

    @staticmethod
    def forward(ctx, mode, pred, modules, wanted, *values):
        ctx.facts = mode, pred, modules, wanted
        ctx.save_for_backward(*(x for x in values if isinstance(x, _C.Tensor)))
        ctx.others = [None if isinstance(x, _C.Tensor) else x for x in values]
        result = _record_cond(mode, pred, modules, list(values))
        return tuple(_pytree.tree_leaves(result))

    @staticmethod
    def backward(ctx, *grads):
        _mode, pred, modules, wanted = ctx.facts
        tensors = iter(ctx.saved_tensors)
        values = [next(tensors) if x is None else x for x in ctx.others]
        found = control_flow.cond(pred, *(_derivative(f, wanted, len(grads)) for f in modules), (*grads, *values))
        by_place = dict(zip(wanted, found, strict=True))
        return (None,) * 4 + tuple(by_place.get(k) for k in range(len(values)))


def _while_loop(mode, functions, operands):
    trees, additional = operands
    carried, spec = _pytree.tree_flatten(trees)
    n = len(carried)

    def of_trees(function):
        return lambda *values: function(*_pytree.tree_unflatten(list(values[:n]), spec), *values[n:])

    outside = _Outside(mode.tracer)
    args = [*_open_numbers(mode, carried), *additional]
    test = _Branch(mode, of_trees(functions[0]), args, outside)
    body = _Branch(mode, lambda *values: _tuple(of_trees(functions[1])(*values)), args, outside)
    if len(body.leaves) != n:
        raise RuntimeError(f"while_loop: body_fn must return as many values as are carried, {n}, got "
                           f"{len(body.leaves)}")
    body.spec = _pytree.tree_structure((0,) * n)
    if mode.shape_env is None:
        _check_numbers(carried, body.leaves)
    modules = [test.module("while_loop_cond_graph"), body.module("while_loop_body_graph")]
    taken = [_attribute(mode, name, m) for name, m in zip(("while_loop_cond_graph", "while_loop_body_graph"), modules,
                                                          strict=True)]
    extra = (*additional, *outside.tensors)
    args = (*taken, mode.tracer.of_value(tuple(carried)), mode.tracer.of_value(extra))
    result = _computed(mode, lambda: control_flow.while_loop(*modules, tuple(carried), extra),
                       lambda: tuple(modules[1](*carried, *extra)))
    result = tuple(_open_numbers(mode, result))
    node = mode.tracer.create_node("call_function", control_flow.while_loop, args, {})
    for k, x in enumerate(result):
        if isinstance(x, SymInt):
            _number_of(mode.tracer, x, mode.tracer.create_node("call_function", operator.getitem, (node, k), {}))
    return _pytree.tree_unflatten(list(mode.track(result, node)), spec)


def _open_numbers(mode, values):
    """Carried values with open numbers in the place of integers, which another step may change."""
    return [mode.shape_env.create_unbacked_symint("carried")
            if mode.shape_env is not None and (type(x) is int or isinstance(x, SymInt)) else x for x in values]


def _check_numbers(carried, returned):
    """Without open numbers a step of the graph would always compute with the first step's."""
    for k, (before, after) in enumerate(zip(carried, returned, strict=True)):
        if not isinstance(before, _C.Tensor) and before != after:
            raise RuntimeError(f"while_loop: carried value {k} is {shown(before)} and becomes {shown(after)}: trace "
                               "with tracing_mode='symbolic', where numbers are open, or carry a tensor")


def _tuple(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def _scan(mode, functions, operands):
    init, xs, dim, reverse, additional = operands
    outside = _Outside(mode.tracer)
    inits, init_spec = _pytree.tree_flatten(init)
    leaves, spec = _pytree.tree_flatten(xs)
    slices = [x.select(dim, 0) for x in _fake(leaves)]
    n, m = len(inits), len(leaves)

    def step(*values):
        carry = _pytree.tree_unflatten(list(values[:n]), init_spec)
        return functions[0](carry, _pytree.tree_unflatten(list(values[n:n + m]), spec), *values[n + m:])

    branch = _Branch(mode, step, [*inits, *slices, *additional], outside)
    combine = _Flat(branch.module("scan_combine_graph"))
    taken = _attribute(mode, "scan_combine_graph", combine)
    extra = (*additional, *outside.tensors)
    of = mode.tracer.of_value
    args = (taken, of(init), of(xs))
    kwargs = {"dim": dim, "reverse": reverse, "additional_inputs": of(extra)}

    def run():
        return control_flow.scan(combine, init, xs, dim=dim, reverse=reverse, additional_inputs=extra)

    def one():
        carry, y = combine(init, [x.select(dim, 0) for x in leaves], *extra)
        return carry, _lengthened(y, leaves[0].shape[dim])

    return _node(mode, control_flow.scan, args, _computed(mode, run, one), kwargs)


def _lengthened(step, length):
    """What many steps give, stacked, as far as one step tells: tensors without values."""
    return _pytree.tree_map(lambda y: y.expand(length, *(-1,) * y.dim()).contiguous(), step)


def _map(mode, functions, operands):
    xs, args = operands
    outside = _Outside(mode.tracer)
    leaves, spec = _pytree.tree_flatten(xs)
    slices = [x[0] for x in _fake(leaves)]
    m = len(leaves)

    def step(*values):
        return functions[0](_pytree.tree_unflatten(list(values[:m]), spec), *values[m:])

    branch = _Branch(mode, step, [*slices, *args], outside)
    body = _Flat(branch.module("map_body_graph"))
    values = [*leaves, *args, *outside.tensors]
    length = leaves[0].shape[0]  # asked of a tensor that the trace knows
    wanted = [k for k, x in enumerate(values) if isinstance(x, _C.Tensor) and x.requires_grad]
    if _C.is_grad_enabled() and wanted:
        result = _DifferentiableMap.apply(mode, body, spec, length, wanted, *values)
        return _pytree.tree_unflatten(list(result), branch.spec)
    return _record_map(mode, body, spec, length, values)


def _record_map(mode, body, spec, length, values):
    m = spec.num_leaves
    xs, extra = _pytree.tree_unflatten(values[:m], spec), values[m:]
    taken = _attribute(mode, "map_body_graph", body)
    of = mode.tracer.of_value

    def one():
        return _lengthened(body(*(x[0] for x in values[:m]), *extra), length)

    result = _computed(mode, lambda: control_flow.map(body, xs, *extra), one)
    return _node(mode, control_flow.map, (taken, of(xs), *of(extra)), result)


class _DifferentiableMap(flambeau.autograd.Function):
    """A captured map whose derivative is a map of the step's derivative."""

    @staticmethod
    def forward(ctx, mode, body, spec, length, wanted, *values):
        ctx.facts = body, spec.num_leaves, wanted
        ctx.save_for_backward(*(x for x in values if isinstance(x, _C.Tensor)))
        ctx.others = [None if isinstance(x, _C.Tensor) else x for x in values]
        return tuple(_pytree.tree_leaves(_record_map(mode, body, spec, length, list(values))))

    @staticmethod
    def backward(ctx, *grads):
        body, m, wanted = ctx.facts
        tensors = iter(ctx.saved_tensors)
        values = [next(tensors) if x is None else x for x in ctx.others]
        derivative = _derivative(body, wanted, len(grads))
        found = control_flow.map(lambda slices, *rest: derivative(*slices, *rest), [*grads, *values[:m]], *values[m:])
        by_place = {k: g if k < m else g.sum(0) for k, g in zip(wanted, found, strict=True)}
        return (None,) * 5 + tuple(by_place.get(k) for k in range(len(values)))


class _Flat(flambeau.nn.Module):
    """A graph of leaves that is called with trees."""

    def __init__(self, graph_module):
        super().__init__()
        self.body = graph_module

    def forward(self, *args):
        return self.body(*_pytree.tree_leaves(args))


def _fake(tensors):
    """The same tensors without values, to look at their shapes: what is done with them is not recorded."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    return [mode.from_tensor(x) for x in tensors]
