"""A batch in microbatches, and their results as one: which arguments are cut, along which dimension."""

import operator

import flambeau

from ..._shown import shown
from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

DEFAULT_CHUNK_DIM = 0


class TensorChunkSpec:
    """Cut along `split_dim`."""

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        """A spec for each number of a tuple.

        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
        """
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """A spec for each number of a dict."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Not cut: every microbatch has all of it."""


class _CustomReducer:
    """Results of microbatches are put together by a function, beginning with a value."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """One for losses."""


sum_reducer = _LossReducer(0.0, operator.add)


def _default(value):
    return TensorChunkSpec(DEFAULT_CHUNK_DIM) if isinstance(value, flambeau.Tensor) else _Replicate()


def _pieces(value, spec, chunks, name):
    if not isinstance(value, flambeau.Tensor) or not isinstance(spec, TensorChunkSpec):
        return [value] * chunks
    if not -value.dim() <= spec.split_dim < value.dim() or value.shape[spec.split_dim] < chunks:
        raise ValueError(f"{name}: a tensor of shape {tuple(value.shape)} cannot be cut into {chunks} microbatches "
                         f"along dimension {spec.split_dim}")
    return value.tensor_split(chunks, spec.split_dim)


def _split(tree, specs, chunks, name):
    """The tree of each microbatch."""
    leaves, structure = tree_flatten(tree)
    if specs is None:
        specs = [_default(leaf) for leaf in leaves]
    else:
        specs = tree_flatten(specs)[0]
        if len(specs) != len(leaves):
            raise ValueError(f"{name}: there are {len(leaves)} values and {len(specs)} chunk specs; give one for each")
    pieces = [_pieces(leaf, spec, chunks, name) for leaf, spec in zip(leaves, specs)]
    return [tree_unflatten([piece[k] for piece in pieces], structure) for k in range(chunks)]


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """([args of each microbatch], [kwargs of each]). Tensors are cut along dimension 0 where no spec says another.

    The parts may differ by one in size. ValueError: a tensor is too small.

    >>> import flambeau
    >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((flambeau.arange(3), 7), {}, 2)
    ([(tensor([0, 1]), 7), (tensor([2]), 7)], [{}, {}])
    """
    name = "split_args_kwargs_into_chunks"
    return _split(tuple(args), args_chunk_spec, chunks, name), _split(kwargs or {}, kwargs_chunk_spec, chunks, name)


def merge_chunks(chunks, chunk_spec=None):
    """The results of all microbatches as one: tensors are put together along dimension 0, or as the spec says; of other
    values, the first.

    >>> import flambeau
    >>> from flambeau.distributed.pipelining.microbatch import merge_chunks
    >>> merge_chunks([(flambeau.ones(1), 7), (flambeau.zeros(1), 7)])
    (tensor([1., 0.]), 7)
    """
    flat = [tree_flatten(chunk)[0] for chunk in chunks]
    structure = tree_flatten(chunks[0])[1]
    specs = [_default(leaf) for leaf in flat[0]] if chunk_spec is None else tree_flatten(chunk_spec)[0]
    if len(specs) != len(flat[0]):
        raise ValueError(f"merge_chunks: there are {len(flat[0])} results and {len(specs)} chunk specs; give one for "
                         "each")
    return tree_unflatten([_merged([leaves[k] for leaves in flat], spec) for k, spec in enumerate(specs)], structure)


def _merged(values, spec):
    if isinstance(spec, _CustomReducer):
        result = spec.init_value
        for value in values:
            result = spec.reduce_fn(result, value)
        return result
    if isinstance(spec, TensorChunkSpec):
        if not isinstance(values[0], flambeau.Tensor):
            raise TypeError(f"merge_chunks: TensorChunkSpec is for tensors, got {shown(values[0])}")
        return flambeau.cat(values, spec.split_dim)
    return values[0]
