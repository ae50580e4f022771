"""Diagonals and triangles: read as views, written, made into matrices, and their indices."""

from .creation import _OPTIONS
from .kinds import composite, primitive, view
from .views import _placed


def _diagonal_backward(g, shape, offset, dim1, dim2):
    zeros = g.new_zeros(shape)
    zeros.diagonal(offset, dim1, dim2).copy_(g)
    return zeros


diagonal = view("diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", ref="numpy.diagonal",
                d={"self": lambda g, self_shape, offset, dim1, dim2:
                   _diagonal_backward(g, self_shape, offset, dim1, dim2)},
                doc="The diagonal of two dimensions, as the last dimension of a view.\n\n"
                    ">>> flambeau.tensor([[1, 2], [3, 4]]).diagonal()\ntensor([1, 4])")


@composite("linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", namespace=None,
           aliases=("linalg.diagonal",), method=False)
def linalg_diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of matrices in the last two dimensions, as a view.

    >>> flambeau.linalg.diagonal(flambeau.arange(8).reshape(2, 2, 2))
    tensor([[0, 3],
            [4, 7]])
    """
    return diagonal(A, offset, dim1, dim2)


diag_embed = primitive(
    "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    d={"self": lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2)},
    doc="""Matrices of zeros with the last dimension of self on their diagonal.

    >>> flambeau.diag_embed(flambeau.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """)


@composite("diag(Tensor self, int diagonal=0) -> Tensor", out=True, ref="numpy.diag")
def diag(self, diagonal=0):
    """The diagonal of a matrix (a copy), or a matrix with a vector on its diagonal.

    >>> flambeau.diag(flambeau.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if self.dim() not in (1, 2):
        raise RuntimeError(f"diag: expected a vector or a matrix, got {self.dim()} dimensions")
    return diag_embed(self, diagonal) if self.dim() == 1 else self.diagonal(diagonal).clone()


@composite("diagflat(Tensor self, int offset=0) -> Tensor", ref="numpy.diagflat")
def diagflat(self, offset=0):
    """A matrix with all elements of self on its diagonal.

    >>> flambeau.diagflat(flambeau.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(self.reshape(-1), offset)


@composite("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor")
def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """A copy of self with src on the diagonal of two dimensions.

    >>> flambeau.diagonal_scatter(flambeau.zeros(2, 2), flambeau.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _placed(self, src, lambda x: x.diagonal(offset, dim1, dim2))


@composite("fill_diagonal_(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor", namespace=None, method=True,
           skip="tested by name")
def fill_diagonal_(self, fill_value, wrap=False):
    """Writes one number on the main diagonal; `wrap` begins it anew below the square part of a tall matrix.

    >>> flambeau.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if self.dim() < 2:
        raise RuntimeError(f"fill_diagonal_: a tensor of {self.dim()} dimensions has no diagonal")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("fill_diagonal_: with more than 2 dimensions all must have one size, got "
                           f"{list(self.shape)}")
    n, step = min(self.shape), sum(self.stride())
    self.as_strided((n,), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.dim() == 2 and self.shape[0] > self.shape[1] + 1:
        width = self.shape[1]
        rest = (self.numel() + width) // (width + 1) - n
        self.as_strided((rest,), (step,), self.storage_offset() + self.stride(0) * (width + 1)).fill_(fill_value)
    return self


@composite("trace(Tensor self) -> Tensor", autocast="float32", ref="numpy.trace", samples="square")
def trace(self):
    """The sum of a matrix's diagonal.

    >>> import flambeau
    >>> flambeau.trace(flambeau.eye(3))
    tensor(3.)
    """
    if self.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, got {self.ndim}-D tensor of shape {list(self.shape)}")
    return self.diagonal().sum()


# --- triangles --------------------------------------------------------------------------------------------------------

tril = primitive("tril(Tensor self, int diagonal=0) -> Tensor", inplace=True, out=True, ref="numpy.tril",
                 d={"self": lambda g, diagonal: g.tril(diagonal)},
                 doc="The lower triangle of each matrix (up to that diagonal); zeros above.\n\n"
                     ">>> flambeau.tril(flambeau.ones(2, 2))\ntensor([[1., 0.],\n        [1., 1.]])")

triu = primitive("triu(Tensor self, int diagonal=0) -> Tensor", inplace=True, out=True, ref="numpy.triu",
                 d={"self": lambda g, diagonal: g.triu(diagonal)},
                 doc="The upper triangle of each matrix (from that diagonal); zeros below.\n\n"
                     ">>> flambeau.triu(flambeau.ones(2, 2))\ntensor([[1., 1.],\n        [0., 1.]])")

tril_indices = primitive(
    f"tril_indices(int row, int col, int offset=0, *, {_OPTIONS}) -> Tensor",
    doc="Rows and columns of the lower triangle of a row by col matrix, as a tensor of shape [2, n].\n\n"
        ">>> flambeau.tril_indices(2, 2)\ntensor([[0, 1, 1],\n        [0, 0, 1]])")

triu_indices = primitive(
    f"triu_indices(int row, int col, int offset=0, *, {_OPTIONS}) -> Tensor",
    doc="Rows and columns of the upper triangle of a row by col matrix, as a tensor of shape [2, n].\n\n"
        ">>> flambeau.triu_indices(2, 2)\ntensor([[0, 0, 1],\n        [0, 1, 1]])")
