"""`vmap`: a function of single examples becomes a function of batches.

Trees of inputs pass `_process_batched_inputs`, `_create_batched_inputs` and `_unwrap_batched`. They have PyTorch's
names and signatures, and are looked up here in each call, because packages whose containers of tensors take batches by
themselves put their own functions in their place.
"""

from functools import wraps

from .. import _C
from .._shown import shown
from ..ops.dims import wrap_dim
from ..ops.kinds import OPS
from ..random import get_rng_state, set_rng_state
from ..utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten
from .batched import Batched, BatchFrame
from .levels import stack

Tensor = _C.Tensor

_RANDOMNESS = ("error", "different", "same")


def check_chunk_size(name, chunk_size):
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"{name}: chunk_size must be positive or None, got {shown(chunk_size)}")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """`func` for every element of a batch at once: its operators see one example and compute all of them.

    `in_dims` says which dimension of each input holds the batch (None: the input is the same for all), as one int or a
    tree like the inputs; `out_dims` where it is put in the outputs. Keyword arguments are the same for all.
    `randomness` decides about random operators: "error", "different" numbers for each element, or the "same".
    `chunk_size` bounds how many elements run at once.

    >>> import flambeau
    >>> dot = flambeau.func.vmap(flambeau.dot)
    >>> dot(flambeau.tensor([[1., 2.], [3., 4.]]), flambeau.ones(2, 2))
    tensor([3., 7.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError("vmap: only 'different', 'same' and 'error' are allowed as randomness, got "
                           f"{shown(randomness)}")
    check_chunk_size("vmap", chunk_size)

    @wraps(func, updated=())
    def batched(*args, **kwargs):
        if any(isinstance(x, Tensor) and x.is_nested for x in args):
            return _of_parts(func, in_dims, out_dims, args, kwargs)
        if not kwargs and all(isinstance(x, Tensor) for x in args):
            inputs = _tensors(func, in_dims, args)
        else:
            inputs = _process_batched_inputs(in_dims, args, func)
        if chunk_size is not None and chunk_size < inputs[0]:
            return _in_chunks(func, inputs, kwargs, out_dims, randomness, chunk_size)
        return _run(func, inputs, kwargs, out_dims, randomness)

    return batched


def _of_parts(func, in_dims, out_dims, args, kwargs):
    """With nested tensors, whose parts have sizes of their own, the function runs once for each part."""
    dims = [in_dims] * len(args) if isinstance(in_dims, int) else list(in_dims)
    nested = [x for x in args if isinstance(x, Tensor) and x.is_nested]
    if out_dims != 0 or any(d not in (0, None) for d in dims):
        raise ValueError(f"vmap({_get_name(func)}): the batch of nested tensors is dimension 0; got "
                         f"in_dims={shown(in_dims)}, out_dims={shown(out_dims)}")
    columns = [x.unbind() if d == 0 else (x,) * len(nested[0]) for x, d in zip(args, dims, strict=True)]
    found = [tree_flatten(func(*row, **kwargs)) for row in zip(*columns, strict=True)]
    rows = zip(*(leaves for leaves, _ in found), strict=True)
    return tree_unflatten([nested[0]._rejoined(list(row)) for row in rows], found[0][1])


def _get_name(func):
    return getattr(func, "__name__", type(func).__name__)


def _tensors(func, in_dims, args):
    """What `_process_batched_inputs` gives, of tensors alone, as they mostly are: no trees, and no spec."""
    dims = [in_dims] * len(args) if isinstance(in_dims, int) else in_dims
    if not args or not isinstance(dims, (tuple, list)) or len(dims) != len(args) \
            or not all(d is None or isinstance(d, int) for d in dims):
        return _process_batched_inputs(in_dims, args, func)
    return _wrapped(_get_name(func), in_dims, args, dims, None)


def _wrapped(name, in_dims, leaves, dims, spec):
    for x, d in zip(leaves, dims, strict=True):
        _check_dim(name, in_dims, x, d)
    dims = [d if d is None else wrap_dim(d, x.ndim, name) for x, d in zip(leaves, dims, strict=True)]
    return _batch_size(name, in_dims, leaves, dims), dims, leaves, spec


def _broadcast_to_and_flatten(tree, spec):
    return broadcast_prefix(tuple(tree) if isinstance(tree, list) else tree, spec)


def _process_batched_inputs(in_dims, args, func):
    """(batch size, the batch dimension of each leaf or None, leaves, their tree)."""
    name = _get_name(func)
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(f"vmap({name}): in_dims must be an int or a tuple with one entry per input, possibly nested "
                         f"as they are; got {type(in_dims).__name__}")
    if not args:
        raise ValueError(f"vmap({name}): called without inputs; at least one is needed to map over")
    leaves, spec = tree_flatten(tuple(args))
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(f"vmap({name}): in_dims={shown(in_dims)} is not structured as the inputs: it has "
                         f"{shown(tree_flatten(in_dims)[1])}, they have {shown(spec)}")
    return _wrapped(name, in_dims, leaves, dims, spec)


def _check_dim(name, in_dims, x, d):
    if d is None or (isinstance(d, int) and isinstance(x, Tensor) and -x.ndim <= d < x.ndim):
        return
    head = f"vmap({name}, in_dims={shown(in_dims)}, ...)(<inputs>): Got in_dim={shown(d)} for an input"
    if not isinstance(d, int):
        raise ValueError(f"{head}; an entry of in_dims must be an int or None")
    if not isinstance(x, Tensor):
        raise ValueError(f"{head} of type {type(x).__name__}; only Tensors can be mapped over: use None there")
    raise ValueError(f"{head} of {x.ndim} dimensions; it can be {-x.ndim} to {x.ndim - 1}")


def _batch_size(name, in_dims, leaves, dims):
    sizes = [x.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={shown(in_dims)}, ...)(<inputs>): at least one input must have a batch "
                         "dimension (an in_dim that is not None, for a Tensor)")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(f"vmap: the mapped dimension must have one size in all inputs, got sizes {shown(sizes)}")
    return sizes[0]


def _add_batch_dim(x, dim, level):
    """`x` as the running vmap of that level sees it, without dimension `dim`."""
    return stack.frames[level - 1].wrap(x if dim == 0 else OPS["movedim"](x, dim, 0))


def _create_batched_inputs(flat_in_dims, flat_args, vmap_level, args_spec):
    return tree_unflatten(_inside(flat_in_dims, flat_args, vmap_level), args_spec)


def _inside(dims, leaves, level):
    return [x if d is None else _add_batch_dim(x, d, level) for x, d in zip(leaves, dims, strict=True)]


def _run(func, inputs, kwargs, out_dims, randomness):
    size, dims, leaves, spec = inputs
    with BatchFrame(size, randomness) as frame:
        inside = (_inside(dims, leaves, frame.level) if spec is None else
                  _create_batched_inputs(dims, leaves, frame.level, spec))
        out = func(*inside, **kwargs)
        if isinstance(out, Tensor) and isinstance(out_dims, int):
            return _output(_get_name(func), frame, out, out_dims)
        return _unwrap_batched(out, out_dims, frame.level, size, func)


def _out_leaves(func, out, out_dims):
    """(leaves, their dimensions, spec) of what the function returned."""
    leaves, spec = tree_flatten(out)
    if isinstance(out_dims, list):
        out_dims = tuple(out_dims)
    dims = broadcast_prefix(out_dims, spec)
    if dims is None and spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = list(out_dims)  # (0,) for a single output
    if dims is None:
        raise ValueError(f"vmap({_get_name(func)}): out_dims={shown(out_dims)} is not structured as the outputs: it "
                         f"has {shown(tree_flatten(out_dims)[1])}, they have {shown(spec)}")
    for x, d in zip(leaves, dims, strict=True):
        if d is not None and not isinstance(x, Tensor):
            raise ValueError(f"vmap({_get_name(func)}): an output that gets the batch must be a Tensor, got "
                             f"{type(x).__name__}; out_dims=None hands other things out as they are")
        if d is not None and not isinstance(d, int):
            raise ValueError(f"vmap({_get_name(func)}): an entry of out_dims is the int where the mapped dimension "
                             f"appears, or None; got {shown(d)}")
    return leaves, dims, spec


def _unwrap_batched(batched_outputs, out_dims, vmap_level, batch_size, func):
    """The outputs of the function without the level of the vmap."""
    name, frame = _get_name(func), stack.frames[vmap_level - 1]
    leaves, dims, spec = _out_leaves(func, batched_outputs, out_dims)
    return tree_unflatten([_output(name, frame, x, d) if isinstance(x, Tensor) else x
                           for x, d in zip(leaves, dims, strict=True)], spec)


def _maybe_remove_batch_dim(name, batched_output, vmap_level, batch_size, out_dim):
    """One output without the level of the vmap; other things than tensors where there is nothing to remove."""
    if isinstance(batched_output, Tensor):
        return _output(name, stack.frames[vmap_level - 1], batched_output, out_dim)
    if out_dim is not None:
        raise ValueError(f"vmap({name}): every output must be a Tensor, got {type(batched_output).__name__}")
    return batched_output


def _output(name, frame, x, dim):
    mine = type(x) is Batched and x.frame is frame
    if dim is None:
        if mine and x.batched:
            raise ValueError(f"vmap({name}): out_dims is None for an output that differs between the elements "
                             "of the batch; say where its dimension goes")
        return x.value if mine else x
    value = x.value if mine else x
    if not (mine and x.batched):
        value = OPS["expand"](value, (frame.size, *value.shape))
    if dim != 0:
        value = OPS["movedim"](value, 0, wrap_dim(dim, value.ndim, f"vmap({name}): out_dims"))
    return value


def _in_chunks(func, inputs, kwargs, out_dims, randomness, chunk):
    """Runs piece by piece along the batch; the results are put together."""
    size, dims, leaves, spec = inputs
    pieces, state = [], get_rng_state() if randomness == "same" else None
    for start in range(0, size, chunk):
        if state is not None:  # one draw for all elements is one for all pieces
            set_rng_state(state)
        length = min(chunk, size - start)
        part = [x if d is None else OPS["narrow"](x, d, start, length) for x, d in zip(leaves, dims, strict=True)]
        pieces.append(_run(func, (length, dims, part, spec), kwargs, out_dims, randomness))
    flat, where, out_spec = _out_leaves(func, pieces[0], out_dims)
    columns = zip(*(tree_flatten(p)[0] for p in pieces), strict=True)
    joined = [first if d is None else OPS["cat"](list(each), d)
              for first, d, each in zip(flat, where, columns, strict=True)]
    return tree_unflatten(joined, out_spec)
