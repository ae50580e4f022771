"""Placements: how a tensor lies along one dimension of a mesh (cut, copied, or as parts of a sum)."""

from ..._shown import shown

_REDUCTIONS = ("sum", "avg", "product", "max", "min", "band", "bor", "bxor")


class Placement:
    """Base of Shard, Replicate and Partial."""

    def is_shard(self, dim=None):
        """Whether the tensor is cut, along `dim` where one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        """Whether every rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        """Whether ranks hold parts of a reduction, of the kind `reduce_op` where one is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


class Shard(Placement):
    """The tensor is cut along dimension `dim`, as `chunk` cuts: the last ranks may have less, or nothing.

    >>> from flambeau.distributed.tensor import Shard
    >>> Shard(0), Shard(1).is_shard(dim=0)
    (Shard(dim=0), False)
    """

    def __init__(self, dim):
        self.dim = dim

    def __eq__(self, other):
        return type(other) is type(self) and other.dim == self.dim

    def __hash__(self):
        return hash((type(self), self.dim))

    def __repr__(self):
        return f"Shard(dim={self.dim})"

    def __str__(self):
        return f"S({self.dim})"


class _StridedShard(Shard):
    """Cut along `dim` after the mesh dimensions that follow, which cut it into `split_factor` parts already.

    `fully_shard` makes it of parameters that tensor parallelism has cut along the same dimension.
    """

    def __init__(self, dim, *, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor

    def __eq__(self, other):
        return super().__eq__(other) and other.split_factor == self.split_factor

    def __hash__(self):
        return hash((type(self), self.dim, self.split_factor))

    def __repr__(self):
        return f"_StridedShard(dim={self.dim}, split_factor={self.split_factor})"

    def __str__(self):
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Every rank has the whole tensor.

    >>> from flambeau.distributed.tensor import Replicate
    >>> Replicate() == Replicate(), Replicate().is_replicate()
    (True, True)
    """

    def __eq__(self, other):
        return isinstance(other, Replicate)

    def __hash__(self):
        return hash(Replicate)

    def __repr__(self):
        return "Replicate()"

    def __str__(self):
        return "R"


class Partial(Placement):
    """The tensor is the sum of what the ranks have (or what `reduce_op` says: avg, product, max, min).

    >>> from flambeau.distributed.tensor import Partial
    >>> Partial(), Partial("max").is_partial("sum")
    (Partial(sum), False)
    """

    def __init__(self, reduce_op="sum"):
        if reduce_op not in _REDUCTIONS:
            raise ValueError(f"Partial: reduce_op must be one of {', '.join(_REDUCTIONS)}, got {shown(reduce_op)}")
        self.reduce_op = reduce_op

    @property
    def linear(self):
        """Whether sums and multiples of parts are parts of sums and multiples."""
        return self.reduce_op in ("sum", "avg")

    def __eq__(self, other):
        return isinstance(other, Partial) and other.reduce_op == self.reduce_op

    def __hash__(self):
        return hash((Partial, self.reduce_op))

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"
