"""Sorting, selecting and searching: sort, topk, unique, searchsorted."""

from .._shown import shown
from ._restore import placed
from .kinds import OPS, composite, primitive

_READS = "its result's shape depends on values"

primitive("sort(Tensor self, int dim=-1, bool descending=False, bool? stable=False) -> (Tensor values, Tensor indices)",
          out=True, d={"self": lambda g0, result1, self_shape, dim: placed(g0, result1, self_shape, dim, True)},
          doc="""The elements along `dim` in ascending (or descending) order, and where they were. NaN is largest.

    >>> flambeau.tensor([3, 1, 2]).sort().indices
    tensor([1, 2, 0])
    """)
primitive("topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, "
          "Tensor indices)", out=True,
          d={"self": lambda g0, result1, self_shape, dim: placed(g0, result1, self_shape, dim, True)},
          doc="""The k largest (or smallest) elements along `dim`, in order, and where they are.

    >>> flambeau.tensor([3, 1, 2]).topk(2).values
    tensor([3, 2])
    """)


@composite("argsort(Tensor self, int dim=-1, bool descending=False, bool? stable=False) -> Tensor")
def argsort(self, dim=-1, descending=False, stable=False):
    """The positions that sort the elements along `dim`.

    >>> flambeau.tensor([3, 1, 2]).argsort()
    tensor([1, 2, 0])
    """
    return self.sort(dim, descending, stable)[1]


@composite("msort(Tensor self) -> Tensor", out=True)
def msort(self):
    """The elements sorted along the first dimension."""
    return self.sort(0)[0]

# --- distinct elements ----------------------------------------------------------------------------------------------

def _starts(rows):
    """Where a row differs from the one before it; rows [n, m]."""
    n = rows.shape[0]
    first = rows.new_ones((min(n, 1),)) != 0
    if n < 2:
        return first
    return OPS["cat"]([first, (rows.narrow(0, 1, n - 1) != rows.narrow(0, 0, n - 1)).any(1)], 0)


def _groups(starts, return_counts):
    """Number of each row's group, and how many rows each group has."""
    group = starts.cumsum(0) - 1
    if not return_counts:
        return group, None
    at = starts.nonzero().reshape(-1)
    n = at.numel()
    if n == 0:
        return group, at
    return group, OPS["cat"]([at.narrow(0, 1, n - 1), at.new_full((1,), starts.numel())], 0) - at


_unique = primitive("_unique(Tensor self, bool return_inverse, bool return_counts)"
                    " -> (Tensor values, Tensor inverse, Tensor counts)", namespace=None,
                    skip="the kernel of unique, reached through it",
                    doc="The distinct elements in ascending order, each element's number and each value's count.")

_without_repeats = primitive("_without_repeats(Tensor self) -> Tensor", namespace=None,
                             skip="the kernel of unique_consecutive, reached through it",
                             doc="The elements without those equal to the one before them.")


def _distinct(name, self, consecutive, return_inverse, return_counts, dim):
    shape = self.shape
    whole = dim is None
    if whole:
        rows = self.reshape(-1, 1)
    else:
        moved = self.movedim(dim, 0) if self.ndim else self.reshape(1)
        rows = moved.reshape(moved.shape[0], max(1, moved.numel() // max(1, moved.shape[0])))
        if moved.numel() == 0 and moved.shape[0] == 0 and 0 in moved.shape[1:]:
            raise RuntimeError(f"{name}: there are no elements along dim {dim} of shape {list(shape)}")
    order = None
    if not consecutive:
        order = rows.select(1, rows.shape[1] - 1).argsort(0)
        for k in range(rows.shape[1] - 2, -1, -1):  # least significant column first: the sort is stable
            order = order.index_select(0, rows.select(1, k).index_select(0, order).argsort(0))
        rows = rows.index_select(0, order)
    starts = _starts(rows)
    group, counts = _groups(starts, return_counts)
    kept = rows.index_select(0, starts.nonzero().reshape(-1))
    result = kept.reshape(-1) if whole or self.ndim == 0 else kept.reshape(-1, *moved.shape[1:]).movedim(0, dim)
    inverse = group
    if return_inverse and order is not None:
        inverse = group.new_zeros(group.shape).scatter(0, order, group)
    parts = [result]
    if return_inverse:
        parts.append(inverse.reshape(shape) if whole else inverse)
    if return_counts:
        parts.append(counts)
    return parts[0] if len(parts) == 1 else tuple(parts)


@composite("unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None)"
           " -> Tensor", skip={"meta": _READS})
def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements in ascending order (or distinct slices along `dim`); with return_inverse the number of each
    element's value, with return_counts how often each occurs.

    >>> flambeau.tensor([3, 1, 3]).unique()
    tensor([1, 3])
    """
    if dim is None and not self.requires_grad:
        values, inverse, counts = _unique(self, return_inverse, return_counts)
        parts = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
        return parts[0] if len(parts) == 1 else tuple(parts)
    return _distinct("unique", self, False, return_inverse, return_counts, dim)


@composite("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)"
           " -> Tensor", skip={"meta": _READS})
def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices along `dim`) without those equal to the one before them; else as unique.

    >>> flambeau.tensor([1, 1, 2, 1]).unique_consecutive()
    tensor([1, 2, 1])
    """
    if dim is None and not (return_inverse or return_counts):
        return _without_repeats(self)
    return _distinct("unique_consecutive", self, True, return_inverse, return_counts, dim)

# --- searching ------------------------------------------------------------------------------------------------------

_searchsorted = primitive("_searchsorted(Tensor sorted_sequence, Tensor self, bool out_int32, bool right) -> Tensor",
                          namespace=None, skip="the kernel of searchsorted, reached through it",
                          doc="Where each element of self goes in the ascending sequence.")


@composite("searchsorted(Tensor sorted_sequence, any self, *, bool out_int32=False, bool right=False, str? side=None,"
           " Tensor? sorter=None) -> Tensor", method=False, out=True, dtypes="float")
def searchsorted(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    """For each element of self its place in the ascending sequence (last dimension): in front of equal ones, or behind
    them with right=True.

    >>> flambeau.searchsorted(flambeau.tensor([1, 3, 5]), flambeau.tensor([3, 4]))
    tensor([1, 2])
    """
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"searchsorted: side must be 'left' or 'right', got {shown(side)}")
        if right and side == "left":
            raise RuntimeError("searchsorted: side='left' contradicts right=True")
        right = side == "right"
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(f"searchsorted: sorter of shape {list(sorter.shape)} must have the sequence's shape"
                               f" {list(sorted_sequence.shape)}")
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    if not hasattr(self, "dtype"):
        self = OPS["full"]((), self, device=sorted_sequence.device)
    return _searchsorted(sorted_sequence, self, out_int32, right)


@composite("bucketize(any self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor", method=False,
           out=True, dtypes="float")
def bucketize(self, boundaries, *, out_int32=False, right=False):
    """The number of the bucket between ascending boundaries into which each element falls.

    >>> flambeau.bucketize(flambeau.tensor([0, 4]), flambeau.tensor([1, 3, 5]))
    tensor([0, 2])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries must be one-dimensional, got shape {list(boundaries.shape)}")
    if not hasattr(self, "dtype"):
        self = OPS["full"]((), self, device=boundaries.device)
    return _searchsorted(boundaries, self, out_int32, right)
