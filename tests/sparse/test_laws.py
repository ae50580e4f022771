"""The law of every sparse operator: op(sparse).to_dense() == op(dense), in each layout, with the same gradients."""

import pytest

import flambeau as fb

COO_SHAPES = {"matrix": ((4, 5), 2, 7), "repeated": ((3, 4), 2, 20), "none": ((3, 4), 2, 0),
              "hybrid": ((4, 3, 2), 2, 5), "vector": ((6,), 1, 4), "cube": ((2, 3, 4), 3, 9),
              "table": ((5, 3), 1, 6), "no rows": ((0, 3), 2, 0)}
LAYOUTS = {"csr": fb.sparse_csr, "csc": fb.sparse_csc, "bsr": fb.sparse_bsr, "bsc": fb.sparse_bsc}


def coo(name, dtype=fb.float64, seed=0):
    """A COO tensor, not coalesced where there is more than one value."""
    shape, sparse_dim, count = COO_SHAPES[name]
    g = fb.Generator().manual_seed(seed)
    indices = fb.stack([fb.randint(0, max(n, 1), (count,), generator=g) for n in shape[:sparse_dim]])
    values = fb.randint(1, 9, (count, *shape[sparse_dim:]), generator=g).to(fb.float64) / 8
    return fb.sparse_coo_tensor(indices, values.to(dtype), shape)


def compressed(kind, dtype=fb.float64):
    g = fb.Generator().manual_seed(1)
    x = fb.randint(0, 3, (4, 6), generator=g).to(dtype)
    block = {"blocksize": (2, 3)} if kind in ("bsr", "bsc") else {}
    return x.to_sparse(layout=LAYOUTS[kind], **block)


ANY = {"neg": lambda x: -x, "times": lambda x: x * 3, "by": lambda x: x / 4, "double": lambda x: x.double(),
       "plus itself": lambda x: x + x, "minus": lambda x: x - 2 * x, "clone": lambda x: x.clone(),
       "sum": lambda x: x.sum(), "squared": lambda x: x * x, "zeros_like": fb.zeros_like}
KEEP_ZERO = ("abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p "
             "rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc square").split()
COO_ONLY = {"sum 0": lambda x: x.sum(0), "sum keepdim": lambda x: x.sum(0, keepdim=True),
            "cat": lambda x: fb.cat([x, x]), "cat -1": lambda x: fb.cat([x, x], -1),
            "stack": lambda x: fb.stack([x, x]), "unsqueeze": lambda x: x.unsqueeze(0),
            "narrow": lambda x: x.narrow(-1, 1, 1), "slice": lambda x: x[..., ::2], "select": lambda x: x.select(-1, 0),
            "index_select": lambda x: x.index_select(-1, fb.tensor([1, 0, 1])), "sum -1": lambda x: x.sum(-1),
            "clamp": lambda x: x.clamp(-0.5, 0.5), "power": lambda x: x ** 3,
            "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
            "all dims": lambda x: x.permute(*range(x.dim())), "norm": lambda x: x.norm()}


def plain(x):
    return x.to_dense() if isinstance(x, fb.Tensor) else x


@pytest.mark.parametrize("op", [*ANY, *COO_ONLY])
@pytest.mark.parametrize("name", COO_SHAPES)
def test_coordinates(op, name):
    f = ANY.get(op) or COO_ONLY[op]
    x = coo(name)
    fb.testing.assert_close(plain(f(x)), f(x.to_dense()), check_dtype=True)
    fb.testing.assert_close(plain(f(x.coalesce())), f(x.to_dense()))


@pytest.mark.parametrize("op", KEEP_ZERO)
@pytest.mark.parametrize("x", ["repeated", "hybrid", "csr", "bsc"])
def test_operators_that_keep_zeros(op, x):
    x = compressed(x) / 4 if x in LAYOUTS else coo(x) / 4
    fb.testing.assert_close(getattr(fb, op)(x).to_dense(), getattr(fb, op)(x.to_dense()), equal_nan=True)
    assert getattr(fb, op)(x).layout is x.layout


@pytest.mark.parametrize("op", ANY)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_compressed(op, kind):
    x = compressed(kind)
    fb.testing.assert_close(plain(ANY[op](x)), ANY[op](x.to_dense()))
    fb.testing.assert_close(x.t().to_dense(), x.to_dense().t())


@pytest.mark.parametrize("dtype", [fb.float32, fb.float16, fb.bfloat16, fb.int64, fb.int32, fb.complex64, fb.bool])
@pytest.mark.parametrize("name", ["matrix", "repeated", "hybrid"])
def test_dtypes(dtype, name):
    x = coo(name).to(dtype)
    assert x.dtype is dtype and x.coalesce().dtype is dtype
    fb.testing.assert_close(x.to_dense().to_sparse(x.sparse_dim()).to_dense(), x.to_dense())
    fb.testing.assert_close(x.coalesce().to_dense(), x.to_dense())


# --- layouts ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("source", ["coo", *LAYOUTS])
@pytest.mark.parametrize("target", ["coo", *LAYOUTS])
def test_every_layout_becomes_every_other(source, target):
    x = coo("repeated") if source == "coo" else compressed(source)
    block = {"blocksize": (1, 2)} if target in ("bsr", "bsc") else {}
    y = x.to_sparse(layout=LAYOUTS.get(target, fb.sparse_coo), **block)
    assert y.layout is LAYOUTS.get(target, fb.sparse_coo)
    assert fb.equal(y, x) and fb.equal(y.to_dense(), x.to_dense())
    assert (y.coalesce()._nnz() if target == "coo" else 1) <= x.numel()


@pytest.mark.parametrize("kind", LAYOUTS)
def test_batches_and_dense_dims(kind):
    x = fb.arange(2 * 4 * 6 * 2.0).reshape(2, 4, 6, 2) + 1
    block = {"blocksize": (2, 3)} if kind in ("bsr", "bsc") else {}
    y = x.to_sparse(layout=LAYOUTS[kind], dense_dim=1, **block)
    assert (y.sparse_dim(), y.dense_dim(), y.values().dim()) == (2, 1, 5 if block else 3)
    assert fb.equal(y.to_dense(), x) and fb.equal((y * 2).to_dense(), x * 2)
    assert fb.equal(y.to_sparse_coo().to_dense(), x)


# --- products ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("columns", [1, 2, 3, 5, 8, 17, 33, 70])
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.int64, fb.int32, fb.complex128, fb.float16])
def test_the_kernel_of_every_width(columns, dtype):
    g = fb.Generator().manual_seed(0)
    x = (fb.rand(40, 90, generator=g) < 0.2) * fb.randint(1, 5, (40, 90), generator=g)
    x[3] = fb.randint(1, 5, (90,), generator=g)  # a long row
    x[7] = 0
    x, dense = x.to(dtype), fb.randint(-4, 5, (90, columns), generator=g).to(dtype)
    for indices in (fb.int64, fb.int32):
        y = x.to_sparse_csr()
        y = fb.sparse_csr_tensor(y.crow_indices().to(indices), y.col_indices().to(indices), y.values(), y.shape)
        fb.testing.assert_close(y @ dense, x @ dense)
    fb.testing.assert_close(x.to_sparse() @ dense, x @ dense)
    fb.testing.assert_close(dense.t() @ x.t().to_sparse_csc(), dense.t() @ x.t())


@pytest.mark.parametrize("a", ["coo", *LAYOUTS])
@pytest.mark.parametrize("b", ["coo", *LAYOUTS, "dense"])
def test_products_of_layouts(a, b):
    x = coo("repeated") if a == "coo" else compressed(a)
    y = (coo("repeated") if b == "coo" else compressed("csr" if b == "dense" else b)).t()
    if x.shape[1] != y.shape[0]:
        y = fb.ones(x.shape[1], 3, dtype=fb.float64).to_sparse()
    y = y.to_dense() if b == "dense" else y
    found = x @ y
    fb.testing.assert_close(plain(found), x.to_dense() @ y.to_dense())
    assert (found.layout is fb.strided) == (b == "dense")


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reduced_products(reduce):
    x, dense = fb.tensor([[0.0, 2, 3], [0, 0, 0], [4, 0, -1]]), fb.tensor([[1.0, -2], [3, 4], [-5, 6]])
    rows = [[2 * dense[1], 3 * dense[2]], [], [4 * dense[0], -dense[2]]]
    expected = fb.stack([getattr(fb.stack(r), reduce)(0) if r else fb.zeros(2) for r in rows])
    fb.testing.assert_close(fb.sparse.mm(x.to_sparse_csr(), dense, reduce), expected)


def test_sampled_addmm_and_addmm():
    x, a, b = compressed("csr"), fb.rand(4, 3, dtype=fb.float64), fb.rand(3, 6, dtype=fb.float64)
    mask = x.to_dense() != 0
    found = fb.sparse.sampled_addmm(x, a, b, beta=0.5, alpha=2)
    fb.testing.assert_close(found.to_dense(), (0.5 * x.to_dense() + 2 * a @ b) * mask)
    c = fb.rand(4, 3, dtype=fb.float64)
    fb.testing.assert_close(fb.addmm(c, x, b.t(), beta=2, alpha=3), 2 * c + 3 * x.to_dense() @ b.t())
    fb.testing.assert_close(fb.sparse.addmm(c, x.to_sparse(), b.t()), c + x.to_dense() @ b.t())


@pytest.mark.parametrize("name", ["repeated", "hybrid", "vector", "cube"])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_counts_absent_places_as_minus_infinity(name, log):
    x = coo(name).coalesce()
    there = (x * 0 + fb.sparse_coo_tensor(x.indices(), fb.ones_like(x.values()), x.shape)).to_dense() > 0
    dense = x.to_dense().masked_fill(~there, -float("inf"))
    for dim in range(x.dim()):
        f = fb.sparse.log_softmax if log else fb.sparse.softmax
        expected = (dense.log_softmax(dim) if log else dense.softmax(dim)).masked_fill(~there, 0)
        fb.testing.assert_close(f(x, dim).to_dense(), expected)


# --- gradients --------------------------------------------------------------------------------------------------------

GRADIENTS = {
    "to_dense": lambda x, d: x.to_dense(), "times": lambda x, d: x * 2, "plus dense": lambda x, d: d + x,
    "times dense": lambda x, d: x * d, "mm": lambda x, d: x @ d.t(), "dense mm": lambda x, d: d.t() @ x,
    "mv": lambda x, d: x @ d[0], "sparse mm": lambda x, d: x @ x.t(), "squared": lambda x, d: x * x,
    "tanh": lambda x, d: x.tanh(), "sum": lambda x, d: x.sum(), "sum 0": lambda x, d: x.sum(0),
    "transpose": lambda x, d: x.t(), "cat": lambda x, d: fb.cat([x, 2 * x]), "select": lambda x, d: x[1],
    "index_select": lambda x, d: x.index_select(1, fb.tensor([1, 1, 0])),
    "softmax": lambda x, d: fb.sparse.softmax(x, 1), "mask": lambda x, d: d.sparse_mask(x),
    "coalesce": lambda x, d: x.coalesce(), "sum of two": lambda x, d: x + x.tanh(),
    "csr": lambda x, d: x.to_sparse_csr() * 2, "bsr": lambda x, d: x.to_sparse_bsr((1, 2)),
}


@pytest.mark.parametrize("case", GRADIENTS)
@pytest.mark.parametrize("name", ["matrix", "none"])
def test_gradients_against_differences(case, name):
    x = coo(name).coalesce()
    if x.shape[1] % 2:
        x = fb.cat([x, x.narrow(1, 0, 1)], 1).coalesce()
    d = fb.rand(x.shape, dtype=fb.float64, generator=fb.Generator().manual_seed(3)).requires_grad_()
    x = x.detach().requires_grad_()
    check = fb.sparse.as_sparse_gradcheck(fb.autograd.gradcheck)
    assert check(GRADIENTS[case], (x, d), masked=True)


def test_second_derivatives():
    values = fb.rand(3, dtype=fb.float64, generator=fb.Generator().manual_seed(0)).requires_grad_()
    dense = fb.rand(4, 2, dtype=fb.float64, generator=fb.Generator().manual_seed(1)).requires_grad_()

    def f(v, d):
        x = fb.sparse_coo_tensor([[0, 1, 1], [3, 0, 2]], v, (2, 4))
        return (fb.sparse.mm(x, d) ** 2).sum() + x.tanh().sum()

    assert fb.autograd.gradgradcheck(f, (values, dense))


@pytest.mark.parametrize("case", ["to_dense", "times", "plus dense", "squared", "mm", "sum", "tanh", "transpose"])
def test_a_repeated_place_has_one_gradient(case):
    """The gradient at a place does not depend on how many values make it up."""
    grads = []
    for x in (coo("repeated"), coo("repeated").coalesce()):
        x = x.detach().requires_grad_()
        d = fb.full(x.shape, 0.5, dtype=fb.float64)
        (plain(GRADIENTS[case](x, d)) ** 2).sum().backward()
        grads.append(x.grad.to_dense())
    fb.testing.assert_close(*grads)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_gradients_of_compressed_layouts(kind):
    x, d = compressed(kind).requires_grad_(), fb.rand(6, 3, dtype=fb.float64, requires_grad=True)
    fb.sparse.mm(x, d).sum().backward()
    assert x.grad.layout is x.layout
    pattern = x.detach() * 0 + fb.ones(4, 6, dtype=fb.float64).sparse_mask(x.detach())
    fb.testing.assert_close(x.grad.to_dense(), (fb.ones(4, 3, dtype=fb.float64) @ d.detach().t()) * pattern.to_dense())
    fb.testing.assert_close(d.grad, x.detach().to_dense().t() @ fb.ones(4, 3, dtype=fb.float64))
