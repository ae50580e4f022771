"""Operators whose local calls differ from rank to rank: random numbers, tables of embeddings."""

import flambeau

from ...ops.kinds import OPS
from .. import _collectives as collectives
from . import _losses as _losses
from ._dispatch import handler, local_op
from ._redistribute import redistributed
from .placement_types import Partial, Replicate, Shard

# --- random numbers: every rank draws those of the whole tensor, and keeps its part -----------------------------------


def _part(whole, extent):
    for dim, (size, offset) in enumerate(zip(*extent)):
        whole = whole.narrow(dim, offset, size)
    return whole


def _one_stream(mesh):
    """Before the first random numbers on a mesh, all ranks take over the state of its first rank's generator."""
    if getattr(mesh, "_one_stream", False):
        return
    state = flambeau.get_rng_state()
    for i in range(mesh.ndim):
        collectives.broadcast(state, group=mesh.get_group(i), group_src=0)
    flambeau.set_rng_state(state)
    mesh._one_stream = True


@handler("normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_", "bernoulli_float_")
def draw(given):
    """The numbers that one process would draw."""
    func, args, kwargs = given
    x = args[0]
    if any(isinstance(p, Partial) for p in x.placements):
        raise RuntimeError(f"{func.name}: parts of a sum cannot be filled with random numbers; call redistribute() "
                           "with Replicate() first")
    if x.device_mesh.get_coordinate() is None:
        return x
    if kwargs.get("generator") is None:
        _one_stream(x.device_mesh)
    whole = func(flambeau.empty(x.shape, dtype=x.dtype), *args[1:], **kwargs)
    x._local_tensor.copy_(_part(whole, x._spec.extent()))
    return x


@handler("rand_like", "randn_like", "randint_like.high", "randint_like.low")
def draw_like(given):
    """New random numbers, spread as the tensor is; a part of a sum makes a whole tensor."""
    func, args, kwargs = given
    x = args[0]
    placements = x._spec.without_partial()
    if kwargs.get("generator") is None:
        _one_stream(x.device_mesh)
    whole = func(flambeau.empty(x.shape, dtype=x.dtype), *args[1:],
                 **{name: value for name, value in kwargs.items() if name != "requires_grad"})
    extent = x._spec.with_placements(placements).extent()
    return local_op(type(x), x._spec, _part(whole, extent).clone(), placements, x.shape, whole.dtype)


@handler("dropout_forward")
def dropout(given):
    """The elements that one process would drop."""
    x, p, generator = (*given.args, None)[:3]
    placements = x._spec.without_partial()
    local = redistributed(x._local_tensor, x._spec, placements)
    if generator is None:
        _one_stream(x.device_mesh)
    mask = given.func(flambeau.ones(x.shape, dtype=x.dtype), p, generator)[1]
    mask = _part(mask, x._spec.with_placements(placements).extent()).contiguous()
    result = OPS["dropout_scale"](local, mask, p)
    return (local_op(type(x), x._spec, result, placements, x.shape, x.dtype),
            local_op(type(x), x._spec, mask, placements, x.shape, mask.dtype))


# --- embeddings whose table is cut by rows ----------------------------------------------------------------------------

@handler("embedding_rows")
def embedding(given):
    """Each rank looks up what its rows answer, and has zeros for the rest: a part of a sum."""
    weight, indices, *options = given.args
    if not any(p.is_shard(0) for p in getattr(weight, "placements", ())) or not hasattr(indices, "placements"):
        return NotImplemented
    mesh = weight.device_mesh
    rows, where, out = [], [], []
    for w, at in zip(weight.placements, indices.placements):
        w = Replicate() if isinstance(w, Partial) else w
        at = Replicate() if isinstance(w, Shard) or isinstance(at, Partial) else at
        rows.append(w)
        where.append(at)
        out.append(Partial() if w.is_shard(0) else Shard(indices.ndim) if w.is_shard(1) else at)
    table = redistributed(weight._local_tensor, weight._spec, tuple(rows))
    index = redistributed(indices._local_tensor, indices._spec, tuple(where))
    shape = (*indices.shape, weight.shape[1])
    if mesh.get_coordinate() is None:
        return local_op(type(weight), weight._spec, table, out, shape, weight.dtype)
    (count, _), (first, _) = weight._spec.with_placements(rows).extent()
    inside = (index >= first) & (index < first + count)
    if count:
        found = given.func(table, (index - first).masked_fill(~inside, 0), *options)
        found = found.masked_fill(~inside.unsqueeze(-1), 0)
    else:
        found = table.new_zeros((*index.shape, table.shape[1]))
    return local_op(type(weight), weight._spec, found, out, shape, weight.dtype)
