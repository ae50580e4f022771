"""Reductions: sums, means, products, extremes, truth values, log-sum-exp, counts and hashes."""

from math import prod

from .. import _C
from .._C import float64, int64, uint64
from ._restore import placed, reduced_count, restore, shared, shared_with_nan, spread, total
from .arithmetic import mul_conj
from .dims import wrap_dims
from .kinds import OPS, composite, differentiated, overloads, primitive, reduction

reduction("sum(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
          d={"self": lambda g, self_shape, dim, keepdim: spread(g, self_shape, dim, keepdim)}, ref="numpy.sum",
          doc="""Sum of the elements over `dim` (absent: all of them). Integers are summed in int64, halves in float32.

    >>> flambeau.tensor([[1, 2], [3, 4]]).sum(0)
    tensor([4, 6])
    """)

reduction("mean(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
          d={"self": lambda g, self_shape, dim, keepdim:
             spread(g / reduced_count(self_shape, dim), self_shape, dim, keepdim)}, ref="numpy.mean",
          doc="""Mean of the elements over `dim` (absent: all of them); floating point or complex input.

    >>> flambeau.tensor([[1., 2.], [3., 4.]]).mean(1)
    tensor([1.5000, 3.5000])
    """)

reduction("nansum(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
          d={"self": lambda g, self, dim, keepdim: restore(g, self.shape, dim, keepdim) * ~self.isnan()},
          ref="numpy.nansum", dtypes="float", doc="Sum of the elements over `dim`, NaN counted as zero.")


@composite("nanmean(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", out=True,
           samples="reduce", ref="numpy.nanmean", dtypes="float")
def nanmean(self, dim=None, keepdim=False, *, dtype=None):
    """Mean over `dim` of the elements that are not NaN."""
    return self.nansum(dim, keepdim, dtype=dtype) / (~self.isnan()).sum(dim, keepdim)


def _others_product(self, dim):
    """The product of all other elements along `dim`, zeros included: products from the left times from the right."""
    n = self.shape[dim]
    one = self.new_ones(self.narrow(dim, 0, 1).shape)
    if n == 1:
        return one
    cat = OPS["cat"]
    before = cat([one, self.narrow(dim, 0, n - 1)], dim)
    after = cat([one, self.narrow(dim, 1, n - 1).flip((dim,))], dim)
    return before.cumprod(dim) * after.cumprod(dim).flip((dim,))


_prod_backward = primitive(
    "_prod_backward(Tensor grad, Tensor self, int dim) -> Tensor", namespace=None, d={},
    skip="a derivative; reached through prod",
    doc="grad times the conjugate of the product of the other elements along `dim`: the gradient of prod.")


def _prod_gradient(g, self, dim, keepdim):
    if self.ndim == 0 or self.numel() == 0:
        return restore(g, self.shape, dim, keepdim) * self.new_ones(self.shape)
    if not differentiated(g, self) and not self.is_cuda:
        x = self.to(g.dtype)
        return _prod_backward(g, x.reshape(-1), 0).reshape(self.shape) if dim is None else _prod_backward(g, x, dim)
    if dim is None:
        return (g * _others_product(self.reshape(-1), 0).conj()).reshape(self.shape)
    return restore(g, self.shape, dim, keepdim) * _others_product(self, dim).conj()


reduction("prod(Tensor self, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor", autocast="float32",
          d={"self": lambda g, self, dim, keepdim: _prod_gradient(g, self, dim, keepdim)},
          samples="reduce_dim", ref="numpy.prod",
          doc="""Product of the elements over `dim` (absent: all of them).

    >>> flambeau.tensor([[1, 2], [3, 4]]).prod(1)
    tensor([ 2, 12])
    """)

# --- truth ----------------------------------------------------------------------------------------------------------

reduction("any(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", ref="numpy.any",
          doc="""Whether any element over `dim` is not zero; over no dimensions, `dim=()`, each for itself.

    >>> flambeau.tensor([[0, 1], [0, 0]]).any(1)
    tensor([ True, False])
    """)
reduction("all(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", ref="numpy.all",
          doc="""Whether all elements over `dim` are different from zero; over no dimensions, `dim=()`, each for itself.

    >>> flambeau.tensor([[1, 1], [0, 1]]).all(1)
    tensor([ True, False])
    """)


@composite("count_nonzero(Tensor self, int[]? dim=None) -> Tensor", samples="reals", ref="numpy.count_nonzero")
def count_nonzero(self, dim=None):
    """How many elements over `dim` are different from zero.

    >>> flambeau.tensor([[0, 1], [2, 3]]).count_nonzero()
    tensor(3)
    """
    return (self if self.dtype is _C.bool else self != 0).sum(dim)

# --- extremes -------------------------------------------------------------------------------------------------------

reduction("amax(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", ref="numpy.amax",
          d={"self": lambda g, self, result, dim, keepdim: shared(g, self, result, dim, keepdim)},
          doc="Largest element over one or several `dim`; equal elements share the gradient.")
reduction("amin(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", ref="numpy.amin",
          d={"self": lambda g, self, result, dim, keepdim: shared(g, self, result, dim, keepdim)},
          doc="Smallest element over one or several `dim`; equal elements share the gradient.")
reduction("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", samples="distinct",
          d={"self": lambda g0, g1, self, result0, result1, dim, keepdim: total(
              None if g0 is None else shared(g0, self, result0, dim, keepdim),
              None if g1 is None else shared(g1, self, result1, dim, keepdim))},
          doc="""Smallest and largest element over `dim`, as a named tuple (min, max).

    >>> tuple(flambeau.tensor([3, 1, 2]).aminmax())
    (tensor(1), tensor(3))
    """)

_max_all = reduction("max.all(Tensor self) -> Tensor",
                     node="MaxBackward1", d={"self": lambda g, self, result: shared_with_nan(g, self, result)},
                     samples="distinct", ref="numpy.max", doc="Largest of all elements.")
_min_all = reduction("min.all(Tensor self) -> Tensor",
                     node="MinBackward1", d={"self": lambda g, self, result: shared_with_nan(g, self, result)},
                     samples="distinct", ref="numpy.min", doc="Smallest of all elements.")
_max_dim = reduction("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
                     node="MaxBackward0", d={"self": lambda g0, result1, self_shape, dim, keepdim:
                        placed(g0, result1, self_shape, dim, keepdim)},
                     doc="Largest elements along `dim` and where they are (the first of equal ones).")
_min_dim = reduction("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
                     node="MinBackward0", d={"self": lambda g0, result1, self_shape, dim, keepdim:
                        placed(g0, result1, self_shape, dim, keepdim)},
                     doc="Smallest elements along `dim` and where they are (the first of equal ones).")


@composite("max.other(Tensor self, Tensor other) -> Tensor", out=True, dtypes=["float"])
def _max_other(self, other):
    """The larger of two elements, as maximum."""
    return self.maximum(other)


@composite("min.other(Tensor self, Tensor other) -> Tensor", out=True, dtypes=["float"])
def _min_other(self, other):
    """The smaller of two elements, as minimum."""
    return self.minimum(other)


overloads("max", _max_all, _max_other, _max_dim,
          doc="""Largest element: of all, along `dim` (values, indices), or of two tensors.

    >>> flambeau.tensor([[1, 5], [4, 2]]).max()
    tensor(5)
    >>> flambeau.tensor([[1, 5], [4, 2]]).max(1).indices
    tensor([1, 0])
    """)
overloads("min", _min_all, _min_other, _min_dim,
          doc="""Smallest element: of all, along `dim` (values, indices), or of two tensors.

    >>> flambeau.tensor([[1, 5], [4, 2]]).min(0).values
    tensor([1, 2])
    """)

reduction("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", ref="numpy.argmax",
          doc="""Position of the largest element along `dim` (absent: in the flattened tensor), the first of equal ones.

    >>> flambeau.tensor([[1, 5], [4, 2]]).argmax(1)
    tensor([1, 0])
    """)
reduction("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", ref="numpy.argmin",
          doc="Position of the smallest element along `dim` (absent: in the flattened tensor), the first of equals.")

# --- logarithm of a sum of exponentials -----------------------------------------------------------------------------

reduction("logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor", ref="scipy.special.logsumexp",
          dtypes="float", aliases=("special.logsumexp",),
          d={"self": lambda g, self, result, dim, keepdim: mul_conj(
              restore(g, self.shape, dim, keepdim), (self - restore(result, self.shape, dim, keepdim)).exp())},
          doc="""log(sum(exp(self))) over `dim`, without overflow.

    >>> flambeau.tensor([1000., 1000.]).logsumexp(0)
    tensor(1000.6932)
    """)


_xor_rows = primitive("xor_rows(Tensor self) -> Tensor", namespace=None, doc="Exclusive or along the rows.",
                      skip="the kernel of hash_tensor, which is tested by name")


@composite("hash_tensor(Tensor self, int[] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", out=True,
           skip="tested by name")
def hash_tensor(self, dim=(), *, keepdim=False, mode=0):
    """The exclusive or, over `dim` (absent: all), of the elements' 64 bits: as float64 numbers, or as int64 ones.

    >>> flambeau.hash_tensor(flambeau.tensor([1, 2, 5]))
    tensor(6, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: there is no mode {mode}, only 0")
    if self.is_complex():
        raise NotImplementedError(f'"hash_tensor" not implemented for {self.dtype}')
    if self.numel() == 0 and not dim:
        raise RuntimeError("hash_tensor: the tensor has no elements; pass the dim to reduce")
    dims = wrap_dims(dim, self.dim(), "hash_tensor") or list(range(self.dim()))
    for d in dims:
        if self.dim() and self.shape[d] == 0:
            raise IndexError(f"hash_tensor: dim {d} has size 0, so there is nothing to reduce")
    x = self.detach()
    words = x.to(float64).contiguous().view(int64) if x.is_floating_point() else \
        x.view(int64) if x.dtype is uint64 else x.to(int64)
    kept = [d for d in range(self.dim()) if d not in dims]
    shape = [n if d in kept else 1 for d, n in enumerate(self.shape)] if keepdim else [self.shape[d] for d in kept]
    rows = words.permute(*kept, *[d for d in dims if self.dim()]) if self.dim() else words
    sizes = prod(self.shape[d] for d in kept), prod(self.shape[d] for d in dims if self.dim())
    return _xor_rows(rows.reshape(sizes)).view(uint64).reshape(shape)


@composite("sum_to_size(Tensor self, int[] size) -> Tensor", namespace=None, method=True,
           skip="tested by name")
def sum_to_size(self, size):
    """The sum over what broadcasting to self's shape would have repeated.

    >>> flambeau.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    lead = self.dim() - len(size)
    fits = lead >= 0 and all(n in (1, m) for n, m in zip(size, self.shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(f"a tensor of size {list(size)} cannot be expanded to {list(self.shape)}")
    made = self
    inner = [k for k in range(lead, self.dim()) if size[k - lead] == 1 and self.shape[k] != 1]
    if inner:
        made = made.sum(inner, True)
    return made.sum(list(range(lead))) if lead else made.sum() if not size else made
