"""Operators on DTensors: how their tensors are to lie, what is moved for that, and what each rank computes."""

from typing import NamedTuple

import flambeau

from ... import _C
from ..._shown import listed
from ...ops.dims import wrap_dims
from ...ops.kinds import OPS
from ._call import Call, exchanged, leaves
from ._dtensor_spec import DTensorSpec, TensorMeta, strides_of
from ._redistribute import redistributed
from ._rules import rule_of
from .placement_types import Partial, Replicate, Shard

#: operator name -> function(given): operators that are more than one local call; it may answer NotImplemented
HANDLERS = {}


class Given(NamedTuple):
    """A call as it is made."""

    func: object
    args: tuple
    kwargs: dict


class Local(NamedTuple):
    """What a rank is about to call on its parts; `specs` are those of the results."""

    call: Call
    args: list
    kwargs: dict
    specs: list


_decisions = {}
_MOST_DECISIONS = 4096
_SETUP = 8192  # bytes that could be sent while a collective is set up


def handler(*names):
    """Decorator: the function computes these operators on DTensors."""
    def record(function):
        for name in names:
            if name in HANDLERS:
                raise RuntimeError(f"operator {name} has two handlers for DTensor")
            HANDLERS[name] = function
        return function
    return record


def dispatch(kind, func, args, kwargs):
    """What `__torch_dispatch__` of DTensor answers."""
    special = HANDLERS.get(func.name)
    if special is not None:
        result = special(Given(func, args, kwargs))
        if result is not NotImplemented:
            return result
    if "out" in kwargs:
        target = kwargs.pop("out")
        return target.copy_(func(*args, **kwargs))
    call = Call(kind, func, args, kwargs)
    decision = _decided(call)
    if decision is None:
        return _on_whole(kind, call)
    return _run(kind, call, *decision)


# --- deciding ---------------------------------------------------------------------------------------------------------

def _decided(call):
    """(placements of the tensors, specs of the results, type of the result, adapt); None where there is no rule."""
    try:
        key = call.key
    except TypeError:
        return _decide(call)
    found = _decisions.get(key, key)
    if found is key:
        if len(_decisions) >= _MOST_DECISIONS:
            _decisions.clear()
        found = _decide(call)
        _decisions[key] = found, call.mesh  # the mesh lives as long as its id is in the key
        return found
    return found[0]


def _decide(call):
    rule = rule_of(call)
    if rule is None:
        return None
    chosen = [_cheapest(call, rule, i) for i in range(call.mesh.ndim)]
    ins = [tuple(ins[t] for ins, _ in chosen) for t in range(len(call.tensors))]
    if call.func.is_inplace:
        return ins, None, None, rule.adapt
    specs = [DTensorSpec(call.mesh, [outs[k] for _, outs in chosen], TensorMeta(x.shape, x.stride(), x.dtype))
             for k, x in enumerate(call.outs)]
    return ins, specs, call.structure, rule.adapt


def _cheapest(call, rule, i):
    candidates = rule.candidates(call, i)
    if call.func.is_inplace:
        own = call.tensors[0].placements[i]
        candidates = [(ins, outs) for ins, outs in candidates if ins[0] == own == outs[0]]
        if not candidates:
            raise RuntimeError(f"{call.name}: a tensor {listed(call.tensors[0].placements)} cannot be written to in "
                               f"place by this operator; call redistribute() with Replicate() in place of {own} first")
    return min(candidates, key=lambda candidate: sum(
        cost(t.placements[i], p, t.numel() * t.dtype.itemsize, call.mesh.shape[i])
        for t, p in zip(call.tensors, candidate[0])))


def cost(source, target, size, ways):
    """Bytes that a rank sends, about, for a tensor of `size` bytes to change its placement."""
    if source == target:
        return 0
    if isinstance(source, Replicate):
        return (1e-6 if isinstance(target, Shard) else 2e-5) * (1 + size)
    share = size * (ways - 1) / ways
    if isinstance(source, Shard):
        return _SETUP + (share / ways if isinstance(target, Shard) else share)
    return _SETUP + (share if isinstance(target, Shard) else 2 * share)


# --- doing ------------------------------------------------------------------------------------------------------------

def _run(kind, call, ins, specs, structure, adapt):
    locals_ = [redistributed(t._local_tensor, t._spec, p) for t, p in zip(call.tensors, ins)]
    if call.func.is_inplace:
        _write(call, locals_)
        return call.args[0]
    if call.mesh.get_coordinate() is None:
        results = [flambeau.empty(0, dtype=s.tensor_meta.dtype) for s in specs]
    else:
        results = _local_results(call, locals_, specs, adapt)
    made = [kind(x, spec, requires_grad=False) for x, spec in zip(results, specs, strict=True)]
    if call.func.kind == "view" and ins[0] != call.tensors[0].placements and call.name not in ("reshape", "contiguous"):
        for x in made:
            x._copied_from = call.tensors[0].placements
    return made[0] if issubclass(structure, _C.Tensor) else tuple(made)


def _local_results(call, locals_, specs, adapt):
    each = iter(locals_)
    func, args = call.func, list(exchanged(call.args, each))
    kwargs = {name: exchanged(value, each) for name, value in call.kwargs.items()}
    if adapt is not None:
        func, args, kwargs = adapt(Local(call, args, kwargs, specs))
    return leaves(func(*args, **kwargs), [])


def _write(call, locals_):
    """The operator in place: on this rank's part, which must be memory of the tensor that is written to."""
    copied = getattr(call.args[0], "_copied_from", None)
    if copied is not None:
        raise RuntimeError(f"{call.name}: this tensor is a part of one that is {listed(copied)}, and had to be copied "
                           "from other ranks, so that writing to it would be lost; call redistribute() with "
                           "Replicate() before taking the part")
    if call.mesh.get_coordinate() is not None:
        each = iter(locals_)
        args = exchanged(call.args, each)
        call.func(*args, **{name: exchanged(value, each) for name, value in call.kwargs.items()})


def _on_whole(kind, call):
    """Without a rule: on whole tensors, which every rank gets first."""
    whole = (Replicate(),) * call.mesh.ndim
    if call.func.is_inplace:
        if call.tensors[0].placements != whole:
            raise NotImplementedError(f"{call.name}: there is no rule for a DTensor "
                                      f"{listed(call.tensors[0].placements)} in place; call redistribute() with "
                                      "Replicate() for every mesh dimension first")
        _write(call, [redistributed(t._local_tensor, t._spec, whole) for t in call.tensors])
        return call.args[0]
    each = iter([redistributed(t._local_tensor, t._spec, whole) for t in call.tensors])
    args = exchanged(call.args, each)
    result = call.func(*args, **{name: exchanged(value, each) for name, value in call.kwargs.items()})

    def wrapped(x):
        if isinstance(x, _C.Tensor):
            spec = DTensorSpec(call.mesh, whole, TensorMeta(x.shape, x.stride(), x.dtype))
            return kind(x, spec, requires_grad=False)
        return tuple(map(wrapped, x)) if isinstance(x, (tuple, list)) else x

    return wrapped(result)


def local_op(kind, spec, local, placements, shape, dtype):
    """A DTensor of a rank's part, on the mesh of `spec`."""
    return kind(local, DTensorSpec(spec.mesh, placements, TensorMeta(tuple(shape), strides_of(shape), dtype)),
                requires_grad=False)


def has_partial(x):
    """Whether ranks hold parts of a reduction."""
    return any(isinstance(p, Partial) for p in x.placements)


@handler("_local_scalar_dense")
def number(given):
    """item() and its kind: of the whole tensor."""
    x = given.args[0]
    return redistributed(x._local_tensor, x._spec, (Replicate(),) * x.device_mesh.ndim).item()


@handler("mean")
def mean(given):
    """The sum, divided: of parts of different sizes the mean of means would be another number."""
    x, dim, keepdim = given.args[:3]
    dtype = given.kwargs.get("dtype")
    total = OPS["sum"](x, dim, keepdim, dtype=dtype or x.dtype)
    return total / (x.numel() // max(total.numel(), 1)) if total.numel() else total


@handler("_vector_norm")
def vector_norm(given):
    """Over cut dimensions: from a sum of powers, or from the largest of all ranks."""
    x, order, dim, keepdim, dtype = (*given.args, None)[:5]
    order = float(order)
    given_dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = wrap_dims(given_dims, x.ndim, "linalg.vector_norm")
    if not any(p.is_shard(d) for p in x.placements for d in dims):
        return NotImplemented
    x = x.abs() if dtype is None else x.to(dtype).abs()
    if order == float("inf"):
        return x.amax(tuple(dims), keepdim)
    if order == float("-inf"):
        return x.amin(tuple(dims), keepdim)
    if order == 0:
        return (x != 0).to(x.dtype).sum(tuple(dims), keepdim)
    powers = x.square() if order == 2 else x.pow(order)
    return OPS["sum"](powers, tuple(dims), keepdim).pow(1 / order)
