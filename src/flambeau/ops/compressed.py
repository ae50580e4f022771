"""Products of compressed sparse matrices, given as row pointers, columns and values: what sparse ones need."""

from .kinds import primitive

_SKIP = "tested with sparse tensors, by name"

csr_transpose = primitive(
    "csr_transpose(Tensor crow, Tensor col, int columns) -> (Tensor, Tensor, Tensor)", namespace=None, skip=_SKIP)


def _transposed_mm(values, crow, col, dense, columns):
    """The transposed matrix, which has this many rows, times a dense one."""
    pointers, row, was = csr_transpose(crow, col, columns)
    return csr_mm(pointers, row, values.index_select(0, was), dense)


csr_mm = primitive(
    "csr_mm(Tensor crow, Tensor col, Tensor values, Tensor dense) -> Tensor", namespace=None, skip=_SKIP,
    d={"values": lambda g, crow, col, dense: csr_sampled(crow, col, g, dense.conj()),
       "dense": lambda g, crow, col, values, dense_shape: _transposed_mm(values.conj(), crow, col, g, dense_shape[0])})

def _max_share(g, rows, shape):
    """What each element of a dense matrix of this shape gets, `rows` naming the one whose maximum was taken."""
    if shape[0] == 0:
        return g.new_zeros(shape)
    return g.new_zeros(shape).scatter_add_(0, rows.clamp(min=0), g.masked_fill(rows < 0, 0))


csr_max = primitive(
    "csr_max(Tensor crow, Tensor col, Tensor dense) -> (Tensor, Tensor)", namespace=None, skip=_SKIP,
    d={"dense": lambda g0, result1, dense_shape: _max_share(g0, result1, dense_shape)})

csr_sampled = primitive(
    "csr_sampled(Tensor crow, Tensor col, Tensor a, Tensor b) -> Tensor", namespace=None, skip=_SKIP,
    d={"a": lambda g, crow, col, b: csr_mm(crow, col, g, b.conj()),
       "b": lambda g, crow, col, a, b_shape: _transposed_mm(g, crow, col, a.conj(), b_shape[0])})
