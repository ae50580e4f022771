"""Embedding: rows of a table looked up by index, one by one or in bags that are added, averaged, or maximised."""

import itertools
import warnings

from .. import _C
from .._shown import shown
from .compressed import csr_max, csr_mm
from .kinds import OPS, composite, primitive

embedding_dense_backward = primitive(
    "embedding_dense_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq)"
    " -> Tensor", namespace=None,
    d={"grad": lambda g, indices, padding_idx:
       _embedding_backward_backward(g, indices, padding_idx)})
embedding_rows = primitive(
    "embedding_rows(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False,"
    " bool sparse=False) -> Tensor", node="EmbeddingBackward0", namespace=None,
    d={"weight": lambda g, weight_shape, indices, padding_idx, scale_grad_by_freq, sparse:
       _embedding_backward(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq, sparse)})
_renorm_ = primitive("embedding_renorm_(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
                     namespace=None, aliases=("embedding_renorm_",), skip="reached through embedding's max_norm",
                     doc="Scales those rows that indices name in place whose norm is above max_norm.")


def _embedding_backward(g, indices, rows, padding_idx, scale, sparse):
    if not sparse:
        return embedding_dense_backward(g, indices, rows, padding_idx, scale)
    if scale:
        raise RuntimeError("embedding: scale_grad_by_freq=True needs dense gradients; leave out sparse=True")
    g, indices = g.reshape(indices.numel(), g.shape[-1]), indices.flatten().clone()  # the caller's may change
    if padding_idx >= 0:
        kept = (indices != padding_idx).nonzero().squeeze(1)
        g, indices = g.index_select(0, kept), indices.index_select(0, kept)
    return g._sparse_rows(indices, rows)


def _embedding_backward_backward(g, indices, padding_idx):
    """As PyTorch has it, a second derivative is not divided by how often a row is used: the first is, already."""
    rows = embedding_rows(g, indices)
    return rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0) if padding_idx >= 0 else rows


@composite("embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0,"
           " bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", namespace="nn.functional")
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of weight that input's integers name. padding_idx: a row without gradient; max_norm: rows in use that
    are longer are shortened in place first; scale_grad_by_freq: gradients divided by how often a row is used;
    sparse: the gradient of weight is a sparse tensor of the rows in use.

    >>> weight = flambeau.tensor([[1., 2.], [3., 4.]])
    >>> flambeau.nn.functional.embedding(flambeau.tensor([1, 0]), weight)
    tensor([[3., 4.],
            [1., 2.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError(f"embedding: Padding_idx must be within num_embeddings ({rows}), got "
                                 f"{shown(padding_idx)}")
        padding_idx = padding_idx + rows if padding_idx < 0 else padding_idx
    if max_norm is not None:
        _renorm_(weight.detach(), input, max_norm, norm_type)
    return embedding_rows(weight, input, padding_idx, scale_grad_by_freq, sparse)


one_hot = primitive("one_hot(Tensor self, int num_classes=-1) -> Tensor", namespace="nn.functional", method=False,
                    doc="Ones at the class numbers in a new last dimension, zeros elsewhere.\n\n"
                        ">>> flambeau.nn.functional.one_hot(flambeau.tensor([1, 0]), 3)\n"
                        "tensor([[0, 1, 0],\n        [1, 0, 0]])")


@composite(
    "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2.0, "
    "bool scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, "
    "bool include_last_offset=False, int? padding_idx=None) -> Tensor",
    namespace="nn.functional", method=False, skip="tested by name",
)  # fmt: skip
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """The sum, mean or max of weight[index] over each bag: a row of a 2-d input, or input[offsets[k]:offsets[k + 1]].

    Indices equal to `padding_idx` do not count. `per_sample_weights` (mode "sum") multiply the rows.

    >>> table = flambeau.tensor([[1.], [10.], [100.]])
    >>> flambeau.nn.functional.embedding_bag(flambeau.tensor([0, 1, 2]), table, flambeau.tensor([0, 2]), mode="sum")
    tensor([[ 11.],
            [100.]])
    """
    if input.is_floating_point() and not weight.is_floating_point():
        warnings.warn("embedding_bag: the indices come first and the weight second; here they came in the order of old",
                      stacklevel=2)
        input, weight = weight, input
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {shown(mode)}")
    if sparse and mode == "max":
        raise ValueError("embedding_bag: mode='max' has no sparse gradient; leave out sparse=True")
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: the gradient of mode='max' does not count rows; leave out scale_grad_by_freq")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights needs mode='sum', got mode='{mode}'"
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: per_sample_weights {list(per_sample_weights.shape)} must be shaped as input "
                f"{list(input.shape)}"
            )
        if per_sample_weights.dtype is not weight.dtype:
            raise RuntimeError(f"embedding_bag: per_sample_weights must have the dtype of weight, {weight.dtype}, got "
                               f"{per_sample_weights.dtype}")
        per_sample_weights = per_sample_weights.reshape(-1)
    if weight.ndim != 2:
        raise ValueError(f"embedding_bag: weight must have 2 dimensions (rows, columns), got shape "
                         f"{list(weight.shape)}")
    if not weight.is_floating_point():
        raise RuntimeError(f"embedding_bag: expected a weight of floating point numbers, got {weight.dtype}")
    bounds, input = _bags(input, offsets, include_last_offset)
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights[:len(input)]
    if max_norm is not None:
        _renorm_(weight.detach(), input, max_norm, norm_type)
    if padding_idx is not None:
        if not -len(weight) <= padding_idx < len(weight):
            raise RuntimeError(f"embedding_bag: padding_idx must name one of the {len(weight)} rows of weight, got "
                               f"{shown(padding_idx)}")
        keep = input != padding_idx % len(weight)
        bounds = OPS["cat"]([bounds[:1], keep.cumsum(0)])[bounds]
        input = input[keep]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[keep]
    try:
        made = _reduced_rows(weight, input, bounds, per_sample_weights, scale_grad_by_freq, mode, sparse)
    except IndexError:
        raise RuntimeError(f"embedding_bag: an index lies outside of weight, which has {len(weight)} rows") from None
    return made / bounds.diff().clamp(min=1).unsqueeze(1).to(made.dtype) if mode == "mean" else made


def _reduced_rows(weight, input, bounds, factors, scale_grad_by_freq, mode, sparse):
    """The sums of each bag's rows, times `factors`, or its maxima. Rows are read where they lie, unless their gradient
    is of another form, or they are halves, whose sums are of float32."""
    half = weight.dtype.itemsize == 2
    if sparse or scale_grad_by_freq or half:
        rows, input = embedding_rows(weight, input, -1, scale_grad_by_freq, sparse), OPS["arange"](
            len(input), device=input.device)
    else:
        rows = weight
    rows = rows.float() if half else rows
    bounds = bounds.to(input.dtype)
    if mode == "max":
        return csr_max(bounds, input, rows)[0].to(weight.dtype)
    factors = rows.new_ones((len(input),)) if factors is None else factors.to(rows.dtype)
    return csr_mm(bounds, input, factors, rows).to(weight.dtype)


def _bags(input, offsets, include_last_offset):
    """Where each bag begins and the last one ends, and the indices as one vector."""
    if input.is_floating_point():
        raise RuntimeError(f"embedding_bag: expected integer indices, got {input.dtype}")
    if input.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"embedding_bag: expected indices of int64 or int32, got {input.dtype}")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: the rows of a 2-d input are the bags, so offsets must be None")
        bags, width = input.shape
        return OPS["arange"](bags + 1, device=input.device) * width, input.reshape(-1)
    if input.ndim != 1:
        raise ValueError("embedding_bag: input must have 1 dimension (with offsets) or 2 (a row per bag), got "
                         f"{input.ndim}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag: a 1-D input needs offsets, a 1-D Tensor of the bags' first positions")
    if offsets.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"embedding_bag: expected offsets of int64 or int32, got {offsets.dtype}")
    ends = offsets.tolist()
    if not include_last_offset:
        ends = [*ends, len(input)]
    if ends[0] != 0 or ends[-1] > len(input) or any(a > b for a, b in itertools.pairwise(ends)):
        raise RuntimeError(
            f"embedding_bag: offsets must start at 0, not fall, and end within the {len(input)} indices, got "
            f"{offsets.tolist()}"
        )
    return input.new_tensor(ends, dtype=_C.int64), input[:ends[-1]]
