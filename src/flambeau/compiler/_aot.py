"""Forward and backward of a function as graphs that compilers of one's own get before it runs: ahead of time.

The function is run once on tensors without values, with its backward pass: one graph of operators that write nothing,
whose inputs are the function's (`primals_1`, …) and the gradients of its results (`tangents_1`, …). A partition cuts it
in two (_partition.py): forward returns the results, then what backward needs.
"""

import functools

from .. import _C, no_grad, zeros
from .._shown import shown
from .._subclasses.fake_tensor import FakeTensorMode
from ..autograd import Function, grad
from ..func import functional_call
from ..fx import GraphModule
from ..fx.experimental._functional import run
from ..fx.experimental.proxy_tensor import make_fx
from ..nn import Module
from ..utils._pytree import tree_flatten, tree_unflatten
from ._partition import default_partition, fakes


def make_boxed_func(f):
    """`f` as a function of one list of its arguments, which it may empty."""
    def boxed(args):
        return f(*args)

    boxed._boxed_call = True
    return boxed


def make_boxed_compiler(compiler):
    """A compiler whose results take one list of their arguments."""
    @functools.wraps(compiler)
    def boxed(module, example_inputs):
        made = compiler(module, example_inputs)
        return made if getattr(made, "_boxed_call", False) else make_boxed_func(made)

    return boxed


def nop(fx_g, _):
    """A compiler that leaves a graph as it is."""
    return fx_g


def _called(function, args):
    """The results of what a compiler made, as a list."""
    made = function(list(args)) if getattr(function, "_boxed_call", False) else function(*args)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _compiled(compiler, module):
    made = compiler(module, fakes(module))
    if not callable(made):
        raise TypeError(f"aot: the compiler {shown(compiler)} must return a function of the graph's inputs, not "
                        f"{shown(made)}")
    return made


class _Plan:
    """What a function is for arguments of certain kinds: flat tensors and constants in, flat results out."""

    def __init__(self, function, flat, spec, how):
        self.constants = [None if isinstance(x, _C.Tensor) else x for x in flat]
        self.places = [k for k, x in enumerate(flat) if isinstance(x, _C.Tensor)]
        self.function, self.spec, self.how = function, spec, how
        tensors = [flat[k] for k in self.places]
        self.wanted = [k for k, x in enumerate(tensors) if x.requires_grad] if _C.is_grad_enabled() else []
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            results, self.written = self._run([mode.from_tensor(x) for x in tensors])
        self.count = len(results)
        self.differentiable = [k for k, wants in enumerate(self.flags) if wants and self.wanted]
        if self.differentiable:
            self._both(tensors, results)
        else:
            self._forward(tensors)

    def _run(self, tensors, after=lambda results: []):
        """(flat results and what `after` gives, the numbers of the tensors that are written into)."""
        flat = list(self.constants)
        for k, x in zip(self.places, tensors, strict=True):
            flat[k] = x

        def inner(*_):
            args, kwargs = tree_unflatten(flat, self.spec)
            leaves, self.result_spec = tree_flatten(self.function(*args, **kwargs))
            self.flags = [isinstance(x, _C.Tensor) and x.requires_grad for x in leaves]
            return leaves, after(leaves)

        (leaves, more), written = run(inner, tuple(tensors), {}, copy_back=False)
        numbers = [next(k for k, x in enumerate(tensors) if x is each) for each, _ in written]
        return [*leaves, *(value for _, value in written), *more], numbers

    def _traced(self, function, tensors, names):
        module = make_fx(function, self.how.decompositions, tracing_mode="fake")(*tensors)
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        for node, name in zip(inputs, names, strict=True):
            node._rename(name)
            node.target = node.name
        module.recompile()
        return module

    def _forward(self, tensors):
        def forward(*given):
            with no_grad():
                return tuple(self._run(given)[0])

        module = self._traced(forward, tensors, [f"arg{k}_1" for k in range(len(tensors))])
        self.forward = _compiled(self.how.inference_compiler or self.how.fw_compiler, module)
        self.backward = None

    def _both(self, tensors, results):
        tangents = [zeros(tuple(x.shape), dtype=x.dtype, device=x.device)
                    for x in (results[k] for k in self.differentiable)]
        n = len(tensors)

        def joint(*given):
            primals, gradients = given[:n], given[n:]

            def gradients_of(leaves):
                outs = [leaves[k] for k in self.differentiable]
                return grad(outs, [primals[k] for k in self.wanted], list(gradients), allow_unused=True)

            return tuple(self._run(primals, gradients_of)[0])

        names = [*(f"primals_{k + 1}" for k in range(n)), *(f"tangents_{k + 1}" for k in range(len(tangents)))]
        module = self._traced(joint, [*tensors, *tangents], names)
        forward, backward = self.how.partition_fn(module, fakes(module), num_fwd_outputs=self.count)
        self.forward = _compiled(self.how.fw_compiler, forward)
        self.backward = _compiled(self.how.bw_compiler or self.how.fw_compiler, backward)

    def __call__(self, flat):
        tensors = [flat[k] for k in self.places]
        made = _Run.apply(self, *tensors) if self.backward is not None else _called(self.forward, tensors)
        made = list(made)
        first = self.count - len(self.written)
        for k, value in zip(self.written, made[first:self.count], strict=True):
            tensors[k].copy_(value)
        return tree_unflatten(made[:first], self.result_spec)


class _Run(Function):
    """A call of a compiled forward, whose derivative is the compiled backward."""

    @staticmethod
    def forward(ctx, plan, *tensors):
        """The results of the function."""
        made = _called(plan.forward, tensors)
        results, kept = made[:plan.count], made[plan.count:]
        kept = [x.clone() if any(x is tensors[k] for k in plan.written) else x for x in kept]  # which change afterwards
        ctx.plan = plan
        ctx.others = [None if isinstance(x, _C.Tensor) else x for x in kept]
        ctx.save_for_backward(*(x for x in kept if isinstance(x, _C.Tensor)))
        results = [x.view_as(x) if any(x is given for given in tensors) else x for x in results]
        plain = [x for k, x in enumerate(results) if k not in plan.differentiable and isinstance(x, _C.Tensor)]
        ctx.mark_non_differentiable(*plain)
        return tuple(results)

    @staticmethod
    def backward(ctx, *gradients):
        """The gradients of the tensors that want one."""
        plan, saved = ctx.plan, iter(ctx.saved_tensors)
        kept = [next(saved) if x is None else x for x in ctx.others]
        given = [*kept, *(gradients[k] for k in plan.differentiable)]
        made = dict(zip(plan.wanted, _called(plan.backward, given), strict=True))
        return (None, *(made.get(k) for k in range(len(plan.places))))


class _How:
    """The compilers, and what they are given."""

    def __init__(self, fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler):
        self.fw_compiler, self.bw_compiler, self.partition_fn = fw_compiler, bw_compiler, partition_fn
        self.decompositions, self.inference_compiler = decompositions, inference_compiler


def aot_function(fn, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 num_params_buffers=0, keep_inference_input_mutations=False, inference_compiler=None, *,
                 static_argnums=None, dynamic=False):
    """A function that does as `fn`, whose forward and backward run as what compilers make of their graphs.

    fw_compiler, bw_compiler   functions of a GraphModule and its example inputs (without values), that return what
                               runs: a function of the inputs, or of one list of them (`make_boxed_func`). Without
                               bw_compiler the first serves both
    partition_fn               cuts the graph of both in two: `default_partition`, `min_cut_rematerialization_partition`
    decompositions             {operator: function that is recorded instead}
    inference_compiler         serves calls without gradients

    Graphs are made anew for arguments of other shapes, dtypes or constants.

    >>> import flambeau
    >>> from flambeau.compiler._aot import aot_function
    >>> def show(module, inputs):
    ...     print(module.code.strip())
    ...     return module
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> aot_function(lambda x: x.exp(), show)(x).sum().backward()
    def forward(self, primals_1):
        exp = flambeau.exp(primals_1);  primals_1 = None
        return (exp, exp)
    def forward(self, exp, tangents_1):
        mul = flambeau.mul(tangents_1, exp);  tangents_1 = exp = None
        return (mul,)
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if dynamic or static_argnums is not None or num_params_buffers or keep_inference_input_mutations:
        raise NotImplementedError("aot_function: dynamic, static_argnums, num_params_buffers and "
                                  "keep_inference_input_mutations are not available; each set of shapes and constants "
                                  "has graphs of its own, and writes to arguments are results of the graph")
    how = _How(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler)
    plans = {}

    @functools.wraps(fn, updated=())
    def compiled(*args, **kwargs):
        flat, spec = tree_flatten((args, kwargs))
        key = _C.is_grad_enabled(), str(spec), tuple(map(_look, flat))
        if key not in plans:
            plans[key] = _Plan(fn, flat, spec, how)
        return plans[key](flat)

    return compiled


def _look(x):
    """What graphs depend on of an argument."""
    if isinstance(x, _C.Tensor):
        return tuple(x.shape), x.stride(), x.dtype, x.device, x.requires_grad
    return type(x), x if getattr(x, "__hash__", None) is not None else id(x)


class AOTModule(Module):
    """A Module whose calls are compiled ahead; it has the parameters of the other, as `orig_module`."""

    def __init__(self, module, compiled):
        super().__init__()
        self.orig_module, self.__dict__["_compiled"] = module, compiled

    def forward(self, *args, **kwargs):
        """The module's results."""
        return self._compiled(_state(self.orig_module), args, kwargs)


def _state(module):
    return {**dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False))}


def _of_module(module, args, kwargs):
    def call(state, given, named):
        return functional_call(module, state, given, named)

    return aot_function(call, *args, **kwargs)


def aot_module(mod, *args, **kwargs):
    """An AOTModule of `mod`, whose parameters and buffers are inputs of the graphs; see `aot_function`."""
    if not isinstance(mod, Module):
        raise TypeError(f"aot_module: expected a Module, got {shown(mod)}")
    return AOTModule(mod, _of_module(mod, args, kwargs))


def aot_module_simplified(mod, args, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                          keep_inference_input_mutations=False, inference_compiler=None):
    """A function of a module's arguments that is compiled ahead; `args` are examples of them.

    Backends of `flambeau.compile` call it: see `aot_autograd`.
    """
    how = fw_compiler, bw_compiler, partition_fn, decompositions, 0, keep_inference_input_mutations, inference_compiler
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"aot_module_simplified: expected a list of example inputs, got {shown(args)}")
    compiled = _of_module(mod, how, {})

    def forward(*given):
        return compiled(_state(mod), given, {})

    forward.zero_grad = getattr(mod, "zero_grad", None)
    return forward


def aot_autograd(*, fw_compiler, bw_compiler=None, partition_fn=default_partition, decompositions=None,
                 inference_compiler=None, keep_inference_input_mutations=False):
    """A backend of `flambeau.compile` that gets graphs of operators which write nothing.

    A captured program is below autograd: it is one graph, which contains the backward pass where the function runs it.
    """
    def backend(module: GraphModule, example_inputs):
        return aot_module_simplified(module, example_inputs, fw_compiler, bw_compiler, partition_fn, decompositions,
                                     keep_inference_input_mutations, inference_compiler)

    return backend
