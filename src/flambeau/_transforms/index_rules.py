"""How `vmap` runs indexing: the batch is one more index, counted up along it."""

from .. import _C
from ..ops.dims import wrap_dim
from ..ops.kinds import OPS
from .batched import front, rule
from .dim_rules import _along
from .view_rules import ones_in_front, shift

_index, _view, _arange = OPS["index"], OPS["reshape"], OPS["arange"]


@rule("gather", "scatter_value")
def gather(op, size, values, marks, options):
    ndim = values[0].ndim - marks[0]
    if ndim == 0 or values[2].ndim - marks[2] != ndim:
        return NotImplemented
    index = front(values[2], marks[2], size)
    return op(front(values[0], marks[0], size), shift(values[1], ndim, op.name), index, *values[3:], **options)


@rule("scatter_src", "scatter_add", "scatter_reduce")
def scatter(op, size, values, marks, options):
    ndim = values[0].ndim - marks[0]
    if ndim == 0 or values[2].ndim - marks[2] != ndim or values[3].ndim - marks[3] != ndim:
        return NotImplemented
    return op(front(values[0], marks[0], size), shift(values[1], ndim, op.name), front(values[2], marks[2], size),
              front(values[3], marks[3], size), *values[4:], **options)


@rule("_among")
def among(op, size, values, marks, options):
    return NotImplemented if marks[1] else op(front(values[0], marks[0], size), *values[1:])


def _counting(size, ndim, device):
    return _view(_arange(size, device=device), (size, *(1,) * ndim))


def _places(indices, marks):
    """(positions of the tensor indices, how many dimensions their common shape has, whether they stand together)."""
    places = [k for k, i in enumerate(indices) if i is not None]
    ndim = max(indices[k].ndim - marks[k] for k in places)
    return places, ndim, places == list(range(places[0], places[0] + len(places)))


def _masks(indices):
    return any(i is not None and i.dtype in (_C.bool, _C.uint8) for i in indices)


@rule("index")
def index(op, size, values, marks, options):
    value, indices = values
    index_marks = marks[1] or [False] * len(indices)
    if _masks(indices):
        if any(i is not None and m and i.dtype is _C.bool for i, m in zip(indices, index_marks, strict=True)):
            raise RuntimeError("vmap: a mask as an index picks another number of elements for each element of the "
                               "batch. Use flambeau.where(mask, x, 0), or x.masked_fill")
        return NotImplemented
    places, ndim, together = _places(indices, index_marks)
    if not marks[1]:
        result = op(value, [None, *indices])
        return result if together else OPS["movedim"](result, ndim, 0)
    aligned = [i if i is None or not m else ones_in_front(i, ndim) for i, m in zip(indices, index_marks, strict=True)]
    if not marks[0] and places == list(range(len(places))):
        return op(value, aligned)
    result = op(front(value, marks[0], size), [_counting(size, ndim, value.device), *aligned])
    before = places[0] if together else 0
    if before and ndim:  # the picked dimensions came first; they belong behind those that stay
        result = OPS["movedim"](result, list(range(1, 1 + ndim)), list(range(1 + before, 1 + before + ndim)))
    return result


@rule("index_put")
def index_put(op, size, values, marks, options):
    value, indices, source, *accumulate = values
    index_marks = marks[1] or [False] * len(indices)
    if _masks(indices):
        return NotImplemented
    places, ndim, together = _places(indices, index_marks)
    if together and places[0] > 0:
        return NotImplemented
    aligned = [i if i is None or not m else ones_in_front(i, ndim) for i, m in zip(indices, index_marks, strict=True)]
    logical = value.ndim - marks[0]
    result_ndim = ndim + logical - len(places)
    if marks[2]:
        if source.ndim - 1 > result_ndim:
            return NotImplemented
        source = ones_in_front(source, result_ndim)
    return op(front(value, marks[0], size), [_counting(size, ndim, value.device), *aligned], source, *accumulate)


@rule("index_select")
def index_select(op, size, values, marks, options):
    value, dim, where = values
    ndim = value.ndim - marks[0]
    if ndim == 0:
        return NotImplemented
    if not marks[2]:
        return op(value, shift(dim, ndim, "index_select"), where)
    if where.ndim == 1:
        where = where.unsqueeze(-1)
    before = wrap_dim(dim, ndim, "index_select")
    return index(_index, size, (value, [None] * before + [where]), (marks[0], [False] * before + [True]), {})


@rule("index_add", "index_copy")
def index_add(op, size, values, marks, options):
    value, dim, where, source = values
    ndim = value.ndim - marks[0]
    if marks[2] or ndim == 0 or source.ndim - marks[3] != ndim:
        return NotImplemented
    return op(front(value, marks[0], size), shift(dim, ndim, op.name), where, front(source, marks[3], size), **options)


@rule("index_fill_number", "index_fill_tensor")
def index_fill(op, size, values, marks, options):
    if marks[2] or marks[3] or values[0].ndim == 1:
        return NotImplemented
    return _along(1)(op, size, values, marks, options)


@rule("take")
def take(op, size, values, marks, options):
    value, where = values
    if not marks[0]:
        return op(value, where)
    if size == 0:
        return NotImplemented
    flat = _view(value, (size, -1))
    if not marks[1]:
        return OPS["index"](flat, [None, where])
    return index(_index, size, (flat, [where]), (True, [True]), {})


@rule("embedding_rows")
def embedding_rows(op, size, values, marks, options):
    weight, where, padding, scale, sparse = (*values, *(-1, False, False)[len(values) - 2:])
    if not marks[0]:
        return op(weight, where, padding, scale, sparse)
    if scale or sparse or padding >= 0:
        return NotImplemented
    if not marks[1]:
        return OPS["index"](weight, [None, where])
    rows = weight.shape[1]
    moved = where + _counting(size, where.ndim - 1, where.device) * rows
    return op(_view(weight, (size * rows, *weight.shape[2:])), moved)


@rule("embedding_dense_backward")
def embedding_backward(op, size, values, marks, options):
    grad, where, rows, padding, scale = values
    if scale or size == 0:
        return NotImplemented
    grad, where = front(grad, marks[0], size), front(where, marks[1], size)
    if padding >= 0:
        grad = grad.masked_fill((where == padding).unsqueeze(-1), 0)
    moved = where + _counting(size, where.ndim - 1, where.device) * rows
    return _view(op(grad, moved, rows * size, -1, False), (size, rows, grad.shape[-1]))


@rule("one_hot")
def one_hot(op, size, values, marks, options):
    if values[1] < 0:
        raise RuntimeError("vmap: one_hot needs num_classes: the number of classes may differ between the elements")
    return op(*values)


@rule("_searchsorted")
def searchsorted(op, size, values, marks, options):
    sequence, value, *rest = values
    if not marks[0] and sequence.ndim == 1:
        return op(sequence, value, *rest)
    if marks[0] and sequence.ndim == 2 and size:
        value = front(value, marks[1], size)
        return _view(op(sequence, _view(value, (size, -1)), *rest), value.shape)
    return NotImplemented
