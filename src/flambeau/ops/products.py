"""Products of vectors, matrices and batches of them: which are primitive, and how the others are made of those."""

from .. import _C
from .._shown import shown
from .dims import wrap_dims
from .kinds import OPS, composite, primitive


def _h(t):
    """The adjoint of the last two dimensions."""
    return t.transpose(-2, -1).conj() if t.is_complex() else t.transpose(-2, -1)


def _scaled(t, factor):
    return t if factor == 1 else t * factor

# --- two operands -----------------------------------------------------------------------------------------------------

mm = primitive(
    "mm(Tensor self, Tensor mat2) -> Tensor", autocast="half",
    d={"self": lambda g, mat2: mm(g, _h(mat2)), "mat2": lambda g, self: mm(_h(self), g)},
    out=True, ref="numpy.matmul", samples="mm",
    doc="""The product of two matrices.

    >>> import flambeau
    >>> flambeau.mm(flambeau.ones(2, 3), flambeau.ones(3, 1))
    tensor([[3.],
            [3.]])
    """)

_scaled_mm = primitive(
    "_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, "
    "Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    method=False, out=True, skip="tested with 8-bit floats, by name",
    doc="""(self scale_a) @ (mat2 scale_b) + bias for matrices of 8-bit floats (float8_e4m3fn, float8_e5m2).

    The scales are float32: one number each, or [m, 1] and [1, n] with one for each row of self and column of mat2. Sums
    are float32, the result out_dtype, or that of self. A result of 8 bits is multiplied by scale_result before it is
    rounded. use_fast_accum lets a GPU keep sums less exactly.
    """)

bmm = primitive(
    "bmm(Tensor self, Tensor mat2) -> Tensor", autocast="half",
    d={"self": lambda g, mat2: bmm(g, _h(mat2)), "mat2": lambda g, self: bmm(_h(self), g)},
    out=True, ref="numpy.matmul", samples="bmm",
    doc="""The products of two equally long batches of matrices: [b, n, m] times [b, m, p].

    >>> import flambeau
    >>> flambeau.bmm(flambeau.ones(4, 2, 3), flambeau.ones(4, 3, 5)).shape
    torch.Size([4, 2, 5])
    """)

_int_mm = primitive(
    "_int_mm(Tensor self, Tensor mat2) -> Tensor", method=False, out=True, skip="tested with bytes, by name",
    doc="The product of two matrices of int8 or uint8, summed in int32.")

_block_scaled_mm = primitive(
    "_block_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, int recipe_a, int recipe_b, "
    "dtype out_dtype, bool use_fast_accum) -> Tensor", namespace=None,
    skip="runs only by a library of CUDA; tested there by name",
    doc="The product of matrices whose scales belong to blocks (nn.functional.ScalingType), laid out as cuBLASLt has "
        "them, by that library.")

_grouped_mm = primitive(
    "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) -> Tensor",
    d={"self": lambda g, mat2, offs: _grouped_mm(g, mat2.mT, offs),
       "mat2": lambda g, self, offs: _grouped_mm(self.mT, g, offs)},
    method=False, autocast="half", skip="tested with groups, by name",
    doc="""Products of groups: group i of a matrix of 2 dimensions ends at offs[i] (int32), where that of i + 1 begins.

    [m, k] times [groups, k, n] has groups of rows, and is [m, n]; [groups, m, k] times [k, n] has groups of columns,
    and is [m, n]; [m, k] times [k, n] has groups of what is summed over, and is [groups, m, n]. Two batches of matrices
    have no groups: [groups, m, k] times [groups, k, n]. What lies behind the last group is 0. ValueError where offs
    do not rise, on the CPU; on a GPU, groups end where the matrix does.
    """)

@composite(
    "_scaled_grouped_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? offs=None, "
    "Tensor? bias=None, Tensor? scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor",
    method=False, skip="tested with groups, by name")
def _scaled_grouped_mm(self, mat2, scale_a, scale_b, offs, bias, scale_result, out_dtype, use_fast_accum):
    """_grouped_mm of 8-bit floats, with float32 scales of rows ([m] or [groups, m]) and columns ([n] or [groups, n]);
    of groups of what is summed over, [groups * m] and [groups * n]. Sums are float32 whatever use_fast_accum allows;
    the result is bfloat16 unless out_dtype says otherwise.
    """
    op = "_scaled_grouped_mm"
    if bias is not None or scale_result is not None:
        raise NotImplementedError(f"{op}: bias and scale_result are not available; add and multiply the result")
    for name, given in (("self", self), ("mat2", mat2)):
        if given.dtype not in (_C.float8_e4m3fn, _C.float8_e5m2):
            raise ValueError(f"{op}: expected {name} of float8_e4m3fn or float8_e5m2, got {shown(given.dtype)}; use "
                             "_grouped_mm for other dtypes")
    found = _grouped_mm(self.float(), mat2.float(), offs)
    groups, m, n = self.shape[0] if offs is None else offs.numel(), self.shape[-2], mat2.shape[-1]
    for name, given, ndim, other, size in (("scale_a", scale_a, self.ndim, mat2.ndim, m),
                                           ("scale_b", scale_b, mat2.ndim, self.ndim, n)):
        expected = [groups, size] if ndim == 3 else [groups * size] if other == 2 else [size]
        if given.dtype is not _C.float32 or list(given.shape) != expected:
            raise ValueError(f"{op}: expected {name} of float32{expected}, got {shown(given.dtype)}{list(given.shape)}")
    if self.ndim == mat2.ndim:
        factor = scale_a.view(groups, m, 1) * scale_b.view(groups, 1, n)
    elif self.ndim == 2:
        factor = scale_a.unsqueeze(-1) * scale_b[_group_of_each(offs, m)]
    else:
        factor = scale_a[_group_of_each(offs, n)].t() * scale_b
    return (found * factor).to(out_dtype or _C.bfloat16)


def _group_of_each(offs, count):
    """The group that each row or column belongs to; the last one where it lies behind them all."""
    own = OPS["searchsorted"](offs, OPS["arange"](count, dtype=_C.int32, device=offs.device), right=True)
    return own.clamp(max=offs.numel() - 1)


mv = primitive(
    "mv(Tensor self, Tensor vec) -> Tensor",
    d={"self": lambda g, vec: outer(g, vec.conj()), "vec": lambda g, self: mv(_h(self), g)},
    out=True, ref="numpy.matmul", samples="mv",
    doc="""A matrix times a vector.

    >>> import flambeau
    >>> flambeau.mv(flambeau.ones(2, 3), flambeau.arange(3.0))
    tensor([3., 3.])
    """)

dot = primitive(
    "dot(Tensor self, Tensor tensor) -> Tensor",
    d={"self": lambda g, tensor: g * tensor.conj(), "tensor": lambda g, self: g * self.conj()},
    out=True, ref="numpy.dot", samples="dot",
    doc="""The sum of products of two vectors, without conjugation.

    >>> import flambeau
    >>> flambeau.dot(flambeau.tensor([1, 2, 3]), flambeau.tensor([4, 5, 6]))
    tensor(32)
    """)


def _matmul_self(g, other, shape):
    if len(shape) == 1:
        return g * other.conj() if other.ndim == 1 else matmul(g.unsqueeze(-2), _h(other)).squeeze(-2)
    if other.ndim == 1:
        return g.unsqueeze(-1) * other.conj()
    return matmul(g, _h(other))


def _matmul_other(g, self, shape):
    if self.ndim == 1:
        return g * self.conj() if len(shape) == 1 else self.conj().unsqueeze(-1) * g.unsqueeze(-2)
    if len(shape) == 1:
        return matmul(_h(self), g.unsqueeze(-1)).squeeze(-1)
    if len(shape) == 2 and self.ndim > 2:  # one product over all rows of the batch instead of a batch to be summed
        return mm(_h(self.flatten(0, -2)), g.flatten(0, -2))
    return matmul(_h(self), g)


matmul = primitive(
    "matmul(Tensor self, Tensor other) -> Tensor", autocast="half", node="MmBackward0",
    d={"self": lambda g, other, self_shape: _matmul_self(g, other, self_shape),
       "other": lambda g, self, other_shape: _matmul_other(g, self, other_shape)},
    out=True, ref="numpy.matmul", samples="matmul",
    doc="""Product of two tensors: vectors, matrices, or batches of matrices whose leading dimensions broadcast.

    >>> import flambeau
    >>> flambeau.matmul(flambeau.ones(5, 1, 2, 3), flambeau.ones(4, 3, 2)).shape
    torch.Size([5, 4, 2, 2])
    """)


@composite("vdot(Tensor self, Tensor other) -> Tensor", out=True, ref="numpy.vdot", samples="dot")
def vdot(self, other):
    """The inner product of two vectors, the first conjugated.

    >>> import flambeau
    >>> flambeau.vdot(flambeau.tensor([1j]), flambeau.tensor([1j]))
    tensor(1.+0.j)
    """
    return dot(self.conj() if self.is_complex() else self, other)


@composite("outer(Tensor self, Tensor vec2) -> Tensor", autocast="given", out=True, ref="numpy.outer", samples="outer")
def outer(self, vec2):
    """Every product of an element of `self` with one of `vec2`.

    >>> import flambeau
    >>> flambeau.outer(flambeau.tensor([1, 2]), flambeau.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"outer: Expected two 1-D vectors, got {self.ndim}-D and {vec2.ndim}-D tensors")
    return self.unsqueeze(-1) * vec2


@composite("ger(Tensor self, Tensor vec2) -> Tensor", autocast="given", out=True, ref="numpy.outer", samples="outer")
def ger(self, vec2):
    """The same as `outer`."""
    return outer(self, vec2)


@composite("inner(Tensor self, Tensor other) -> Tensor", out=True, ref="numpy.inner", samples="dot")
def inner(self, other):
    """Sum of products over the last dimensions of both.

    >>> import flambeau
    >>> flambeau.inner(flambeau.ones(2, 3), flambeau.ones(4, 3)).shape
    torch.Size([2, 4])
    """
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise RuntimeError("inner: the last dimensions must match, got "
                           f"shapes {list(self.shape)} and {list(other.shape)}")
    return tensordot(self, other, ([-1], [-1]))

# --- sum of a tensor and a product ------------------------------------------------------------------------------------

def _older(a, b):
    """The orders of old programs: factors first, which may leave that of the product away."""
    return f"beta self alpha {a} {b}", f"beta self {a} {b}"


addmm = primitive(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", autocast="half",
    older=_older("mat1", "mat2"),
    d={"self": lambda g, beta: _scaled(g, beta.conjugate()),
       "mat1": lambda g, mat2, alpha: _scaled(mm(g, _h(mat2)), alpha.conjugate()),
       "mat2": lambda g, mat1, alpha: _scaled(mm(_h(mat1), g), alpha.conjugate())},
    out=True, inplace=True, samples="addmm",
    doc="""beta * self + alpha * (mat1 @ mat2); `self` broadcasts.

    >>> import flambeau
    >>> flambeau.addmm(flambeau.ones(1), flambeau.ones(1, 3), flambeau.ones(3, 2), alpha=2)
    tensor([[7., 7.]])
    """)

baddbmm = primitive(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", autocast="half",
    older=_older("batch1", "batch2"),
    d={"self": lambda g, beta: _scaled(g, beta.conjugate()),
       "batch1": lambda g, batch2, alpha: _scaled(bmm(g, _h(batch2)), alpha.conjugate()),
       "batch2": lambda g, batch1, alpha: _scaled(bmm(_h(batch1), g), alpha.conjugate())},
    out=True, inplace=True, samples="baddbmm",
    doc="""beta * self + alpha * bmm(batch1, batch2); `self` broadcasts.

    >>> import flambeau
    >>> flambeau.baddbmm(flambeau.ones(2), flambeau.ones(3, 1, 4), flambeau.ones(3, 4, 2), beta=0).sum()
    tensor(24.)
    """)


def _plus(self, beta, product, alpha):
    """beta self + alpha product, where beta 0 ignores even a NaN in self."""
    if not (product.is_floating_point() or product.is_complex()):
        beta, alpha = int(beta), int(alpha)
    product = _scaled(product, alpha)
    return product if beta == 0 else _scaled(self, beta) + product


@composite("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", autocast="given",
           out=True, inplace=True, samples="addmv", older=_older("mat", "vec"))
def addmv(self, mat, vec, *, beta=1, alpha=1):
    """beta * self + alpha * (mat @ vec).

    >>> import flambeau
    >>> flambeau.addmv(flambeau.ones(2), flambeau.ones(2, 3), flambeau.ones(3))
    tensor([4., 4.])
    """
    return _plus(self, beta, mv(mat, vec), alpha)


def _check_factor(name, factor, dtype):
    """RuntimeError for a number that results of this dtype cannot be multiplied by: no bool, and of no higher kind."""
    if isinstance(factor, bool) and dtype is not _C.bool:
        raise RuntimeError(f"addr: {name} may be a bool only where the result is one, got {name}={factor} for {dtype}; "
                           f"use {int(factor)}")
    if isinstance(factor, complex) and not dtype.is_complex:
        raise RuntimeError(f"addr: {name} must be real for a result of {dtype}, got {factor}")
    if isinstance(factor, float) and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"addr: {name} must be an integer for a result of {dtype}, got {factor}")


@composite("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", autocast="given",
           out=True, inplace=True, samples="addr", older=_older("vec1", "vec2"))
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    """beta * self + alpha * outer(vec1, vec2).

    >>> import flambeau
    >>> flambeau.addr(flambeau.ones(2), flambeau.ones(1), flambeau.ones(2))
    tensor([[2., 2.]])
    """
    dtype = _C.promote_types(self.dtype, _C.promote_types(vec1.dtype, vec2.dtype))
    _check_factor("beta", beta, dtype)
    _check_factor("alpha", alpha, dtype)
    if dtype is _C.bool:
        return (self & bool(beta)) | (outer(vec1, vec2) & bool(alpha))
    return _plus(self, beta, outer(vec1, vec2), alpha)


@composite("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           autocast="half", out=True, inplace=True, samples="addbmm", older=_older("batch1", "batch2"))
def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """beta * self + alpha * (the products of a batch, summed).

    >>> import flambeau
    >>> flambeau.addbmm(flambeau.zeros(1, 1), flambeau.ones(2, 1, 3), flambeau.ones(2, 3, 1))
    tensor([[6.]])
    """
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError("addbmm: expected batches of shapes [b, n, m] and [b, m, p], got "
                           f"{list(batch1.shape)} and {list(batch2.shape)}")
    b, n, m = batch1.shape
    rows = batch1.permute(1, 0, 2).reshape(n, b * m)
    return addmm(self, rows, batch2.reshape(b * m, batch2.shape[2]), beta=beta, alpha=alpha)


# --- more than two operands, or other dimensions ----------------------------------------------------------------------

@composite("kron(Tensor self, Tensor other) -> Tensor", autocast="given", out=True, ref="numpy.kron", samples="kron")
def kron(self, other):
    """Kronecker's product: every element of `self` times the whole of `other`.

    >>> import flambeau
    >>> flambeau.kron(flambeau.tensor([1, 2]), flambeau.tensor([1, 1]))
    tensor([1, 1, 2, 2])
    """
    self, other = self.contiguous(), other.contiguous()  # each is read again for every element of the other
    if self.ndim == other.ndim == 1:
        return (self.unsqueeze(1) * other).flatten()
    rows, columns = self.shape, other.shape
    if len(rows) != len(columns):
        n = max(len(rows), len(columns))
        rows, columns = (1,) * (n - len(rows)) + rows, (1,) * (n - len(columns)) + columns
    left, right, whole = [], [], []
    for a, b in zip(rows, columns):
        left += (a, 1)
        right += (1, b)
        whole.append(a * b)
    return (self.reshape(left) * other.reshape(right)).reshape(whole)


def _contracted_dims(dims, a, b):
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims >= 0 and at most {min(a.ndim, b.ndim)}, but got "
                               f"dims={shown(dims)}")
        return list(range(a.ndim - dims, a.ndim)), list(range(dims))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError(f"tensordot: dims must name equally many dimensions of both tensors, got {first} and "
                           f"{second}")
    return wrap_dims(first, a.ndim, "tensordot"), wrap_dims(second, b.ndim, "tensordot")


@composite("tensordot(Tensor a, Tensor b, any dims=2) -> Tensor", method=False, out=True, samples="tensordot")
def tensordot(a, b, dims=2):
    """Sum of products over several dimensions: the last `dims` of the first with the first of the second, or a pair of
    lists that names them.

    >>> import flambeau
    >>> flambeau.tensordot(flambeau.ones(2, 3, 4), flambeau.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    torch.Size([2, 5])
    """
    first, second = _contracted_dims(dims, a, b)
    inside = 1
    for i, j in zip(first, second):
        if a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:  # a size of one goes with any
                b = b.sum(j, True)
                continue
            if b.shape[j] == 1:
                a = a.sum(i, True)
                continue
            raise RuntimeError(f"tensordot: dimension {i} of the first tensor ({a.shape[i]}) and dimension {j} of "
                               f"the second ({b.shape[j]}) are summed together, so their sizes must be equal")
        inside *= a.shape[i]
    rows = [d for d in range(a.ndim) if d not in first]
    columns = [d for d in range(b.ndim) if d not in second]
    shape = [a.shape[d] for d in rows] + [b.shape[d] for d in columns]
    m = n = 1
    for d in rows:
        m *= a.shape[d]
    for d in columns:
        n *= b.shape[d]
    a = a.permute(rows + first).reshape(m, inside)
    b = b.permute(second + columns).reshape(inside, n)
    return mm(a, b).reshape(shape)


def _cheapest(sizes):
    """Where to split a chain of matrices i … j so that the number of multiplications is least (Cormen, 15.2)."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
    return split


@composite("vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
           autocast="half", namespace="linalg", method=False,
           out=True, samples="pairs")
def vecdot(x, y, *, dim=-1):
    """Sums of products along one dimension, the first operand conjugated; the others broadcast.

    >>> import flambeau
    >>> flambeau.linalg.vecdot(flambeau.ones(2, 3), flambeau.arange(3.0))
    tensor([3., 3.])
    """
    return ((x.conj() if x.is_complex() else x) * y).sum(dim)


@composite("chain_matmul(Tensor[1] matrices) -> Tensor", autocast="half", out=True, samples="chain_matmul")
def chain_matmul(matrices):
    """The product of one or more matrices in the order of least work; linalg.multi_dot is its newer name.

    >>> import flambeau
    >>> flambeau.chain_matmul(flambeau.ones(2, 9), flambeau.ones(9, 1), flambeau.ones(1, 3)).shape
    torch.Size([2, 3])
    """
    return matrices[0] if len(matrices) == 1 else multi_dot(list(matrices))


@composite("multi_dot(Tensor[] tensors) -> Tensor",
           autocast="half", namespace="linalg", method=False, out=True, samples="multi_dot")
def multi_dot(tensors):
    """The product of two or more matrices in the order of least work; the first and the last may be vectors.

    >>> import flambeau
    >>> flambeau.linalg.multi_dot([flambeau.ones(2, 9), flambeau.ones(9, 1), flambeau.ones(1, 3)]).shape
    torch.Size([2, 3])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"linalg.multi_dot: at least 2 tensors are needed, got {len(tensors)}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for k, t in enumerate(tensors):
        if t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {t.ndim}D")
        if k and tensors[k - 1].shape[1] != t.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {k - 1} and {k} with shapes {list(tensors[k - 1].shape)} and "
                               f"{list(t.shape)} cannot be multiplied")
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError(f"linalg.multi_dot: expected tensors of one dtype, got {tensors[0].dtype} and, as "
                               f"tensor {k}, {t.dtype}")
    split = _cheapest([tensors[0].shape[0]] + [t.shape[1] for t in tensors])

    def product(i, j):
        return tensors[i] if i == j else mm(product(i, split[i][j]), product(split[i][j] + 1, j))

    result = product(0, len(tensors) - 1)
    result = result.squeeze(0) if row else result
    return result.squeeze(-1) if column else result
