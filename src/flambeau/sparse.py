"""Functions of sparse tensors: products, sums, softmax, diagonals, and whether indices are checked."""

from functools import wraps

from ._absent import refusals
from ._C import Tensor
from ._sparse import products, reductions
from ._sparse.construct import INVARIANTS
from ._sparse.products import sampled_addmm as sampled_addmm
from ._sparse.products import spdiags as spdiags
from ._sparse.products import spsolve as spsolve
from ._sparse.softmax import log_softmax as log_softmax
from ._sparse.softmax import softmax as softmax
from ._sparse.tensor import is_sparse, make
from ._sparse.types import SPARSE_TYPES

mm, addmm, sum = products.sparse_mm, products.sparse_addmm, reductions.sparse_sum
_SEMI_STRUCTURED = "2:4 sparse tensors need tensor cores: keep the matrix dense, or convert it with to_sparse_csr()"
globals().update(refusals("sparse", _SEMI_STRUCTURED, """
    to_sparse_semi_structured(original_tensor, transposed, alg_id) SparseSemiStructuredTensor(shape, packed,
    meta, packed_t, meta_t, compressed_swizzled_bitmask, fuse_transpose_cusparselt, alg_id_cusparselt,
    requires_grad) SparseSemiStructuredTensorCUTLASS(shape, packed, meta, packed_t, meta_t,
    compressed_swizzled_bitmask, fuse_transpose_cusparselt, alg_id_cusparselt, requires_grad)
    SparseSemiStructuredTensorCUSPARSELT(shape, packed, meta, packed_t, meta_t, compressed_swizzled_bitmask,
    fuse_transpose_cusparselt, alg_id_cusparselt, requires_grad)
"""))
globals().update(SPARSE_TYPES)
globals()["SparseSemiStructuredTensor"]._DEFAULT_ALG_ID = 0  # which functions have as a default


class check_sparse_tensor_invariants:
    """Whether all invariants of sparse tensors are checked when they are made: also the order of what is said to be
    coalesced. That indices lie within the size is checked unless check_invariants=False says otherwise.

    >>> import flambeau
    >>> flambeau.sparse.check_sparse_tensor_invariants.is_enabled()
    False
    """

    def __init__(self, enable=True):
        self.enable_inside = enable

    @staticmethod
    def is_enabled():
        """Whether it is on."""
        return INVARIANTS.always

    @staticmethod
    def enable():
        """Turns it on."""
        INVARIANTS.always = True

    @staticmethod
    def disable():
        """Turns it off."""
        INVARIANTS.always = False

    def __enter__(self):
        self.before = self.is_enabled()
        INVARIANTS.always = self.enable_inside

    def __exit__(self, *_):
        INVARIANTS.always = self.before

    def __call__(self, function):
        """As a decorator: the function runs with the checks."""
        @wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self.enable_inside):
                return function(*args, **kwargs)
        return checked


def as_sparse_gradcheck(gradcheck):
    """Decorator: a gradcheck that also takes functions of sparse tensors, whose values are varied (masked=True)."""
    @wraps(gradcheck)
    def sparse_gradcheck(func, inputs, **kwargs):
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        patterns = [x._pattern if is_sparse(x) else None for x in inputs]

        def of_values(*parts):
            found = func(*[x if p is None else make(p, x) for p, x in zip(patterns, parts, strict=True)])
            outputs = found if isinstance(found, (tuple, list)) else (found,)
            return tuple(y.to_dense() if isinstance(y, Tensor) else y for y in outputs)

        parts = [x if p is None else x._values().clone().requires_grad_(x.requires_grad)
                 for p, x in zip(patterns, inputs, strict=True)]
        kwargs.pop("masked", None)
        return gradcheck(of_values, tuple(parts), **kwargs)

    return sparse_gradcheck
