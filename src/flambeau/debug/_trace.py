"""A forward pass without data: the model stands on the meta device meanwhile, and every call is recorded."""

import contextlib
from dataclasses import dataclass, field

from .. import Tensor
from .._tensor.overriding import TorchDispatchMode
from ..autograd import no_grad
from ..nn.modules._hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..nn.parameter import Parameter, UninitializedParameter
from ..ops.kinds import OPS


def tensors_in(x):
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, dict):
        for v in x.values():
            yield from tensors_in(v)
    elif isinstance(x, (list, tuple)):
        for v in x:
            yield from tensors_in(v)


def _meta(x):
    if isinstance(x, Tensor):
        return x if x.is_meta else x.to("meta")
    if isinstance(x, (list, tuple)):
        parts = [_meta(v) for v in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts) if type(x) in (list, tuple) else x
    return x


@dataclass
class Call:
    """One call of a module: where, with what, what came out, and what was done in it (children not included)."""

    path: str
    module: object
    depth: int
    inputs: list = field(default_factory=list)   # shapes of all tensors given
    arguments: list = field(default_factory=list)  # per positional argument its shape, or None
    outputs: list = field(default_factory=list)  # shapes
    multiply_adds: int = 0
    activation_bytes: int = 0
    children: list = field(default_factory=list)


class Trace(TorchDispatchMode):
    """Records the calls of `model` inside `with`; `failed` is the operator that raised, with its tensors' shapes."""

    def __init__(self, model):
        self.paths = {module: path for path, module in model.named_modules()}
        self.root = Call("", model, -1)
        self.stack, self.operators, self.failed = [self.root], 0, None

    def before(self, module, args):
        if module in self.paths:
            call = Call(self.paths[module], module, len(self.stack) - 1, [tuple(t.shape) for t in tensors_in(args)],
                        [tuple(a.shape) if isinstance(a, Tensor) else None for a in args])
            self.stack[-1].children.append(call)
            self.stack.append(call)

    def after(self, module, args, output):
        if module in self.paths:
            self.stack.pop().outputs = [tuple(t.shape) for t in tensors_in(output)]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args, kwargs = [_meta(a) for a in args] if _mixed(args) else args, kwargs or {}
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.failed = func.name, [tuple(t.shape) for t in tensors_in(args)]
            raise
        self.operators += 1
        call = self.stack[-1]
        count = MULTIPLY_ADDS.get(func.name)
        if count is not None:
            call.multiply_adds += count(args, next(tensors_in(result)))
        if func.kind != "view" and not func.is_inplace:
            call.activation_bytes += sum(t.nbytes for t in tensors_in(result) if t.is_meta)
        return result


def _mixed(args):
    """Whether meta tensors meet others: tensors that a forward makes itself, without data of the input."""
    kinds = {t.is_meta for t in tensors_in(args)}
    return len(kinds) > 1


def _product(sizes):
    n = 1
    for size in sizes:
        n *= size
    return n


def _convolution(args, out):
    weight = args[1].shape
    return args[0].numel() * _product(weight[1:]) if args[6] else out.numel() * _product(weight[1:])


def _recurrent(args, out):
    rows, projection = args[0].shape[0], args[7]
    return rows * (args[3].numel() + args[4].numel() + (projection.numel() if projection is not None else 0))


#: operator -> multiply-adds, from its arguments and its (first) result; what is not here counts as none
MULTIPLY_ADDS = {
    "mm": lambda a, out: out.numel() * a[0].shape[-1], "bmm": lambda a, out: out.numel() * a[0].shape[-1],
    "matmul": lambda a, out: out.numel() * a[0].shape[-1], "mv": lambda a, out: a[0].numel(),
    "dot": lambda a, out: a[0].numel(), "linear": lambda a, out: out.numel() * a[0].shape[-1],
    "addmm": lambda a, out: out.numel() * a[1].shape[-1], "baddbmm": lambda a, out: out.numel() * a[1].shape[-1],
    "convolution": _convolution, "recurrent_layer": _recurrent,
    "fused_attention": lambda a, out: a[0].numel() * a[1].shape[-2] + out.numel() * a[1].shape[-2],
}


@contextlib.contextmanager
def on_meta(model):
    """Inside: parameters and buffers are meta tensors and the model evaluates; afterwards everything is as it was."""
    lazy = next((path for path, p in model.named_parameters() if isinstance(p, UninitializedParameter)), None)
    if lazy is not None:
        raise RuntimeError(f"parameter {lazy} has no size yet: call the model once with an input, then try again")
    saved = [(m, dict(m._parameters), dict(m._buffers), m.training) for m in model.modules()]
    made = {}

    def moved(t):
        if t is None or t.is_meta:
            return t
        if id(t) not in made:
            meta = OPS["empty_strided"](t.shape, t.stride(), dtype=t.dtype, device="meta")
            made[id(t)] = Parameter(meta, t.requires_grad) if isinstance(t, Parameter) else meta
        return made[id(t)]

    try:
        for module, parameters, buffers, _ in saved:
            module._parameters.update((k, moved(t)) for k, t in parameters.items())
            module._buffers.update((k, moved(t)) for k, t in buffers.items())
            module.training = False
        yield
    finally:
        for module, parameters, buffers, training in saved:
            module._parameters.clear()
            module._parameters.update(parameters)
            module._buffers.clear()
            module._buffers.update(buffers)
            module.training = training


def trace(model, args, kwargs):
    """(the Trace of model(*args, **kwargs), the result, the error or None). Call it inside `on_meta`."""
    record = Trace(model)
    hooks = register_module_forward_pre_hook(record.before), register_module_forward_hook(record.after)
    try:
        with no_grad(), record:
            return record, model(*args, **kwargs), None
    except Exception as error:
        return record, None, error
    finally:
        for hook in hooks:
            hook.remove()
