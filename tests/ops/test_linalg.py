"""Products: strides, dtypes, shapes, errors, einsum's notation; derivatives are in test_gradients."""

import math

import numpy as np
import pytest

import flambeau

F = flambeau.nn.functional
rng = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 4e-2, "complex64": 2e-5}


def made(*shape, dtype="float64"):
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    if dtype.startswith("int"):
        values = np.round(values * 5)
    return flambeau.from_numpy(np.array(values)).to(getattr(flambeau, dtype))


def array(t):
    return np.array(t.detach().tolist()).reshape(tuple(t.shape))


def close(found, expected, tolerance):
    assert tuple(found.shape) == np.shape(expected)
    scale = max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(array(found), expected, rtol=0, atol=tolerance * scale)


SIZES = [(1, 1, 1), (1, 8, 8), (16, 8, 8), (3, 1, 70), (70, 1, 3), (5, 7, 0), (33, 50, 17), (100, 90, 130),
         (4, 200, 60)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_every_layout(dtype, size):
    m, n, k = size
    for turn_a in (False, True):
        for turn_b in (False, True):
            a = made(k, m, dtype=dtype).t() if turn_a else made(m, k, dtype=dtype)
            b = made(n, k, dtype=dtype).t() if turn_b else made(k, n, dtype=dtype)
            close(a @ b, array(a) @ array(b), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("m, k, n", [(20, 30, 10), (3, 1100, 2100)])
def test_integer_products_wrap(dtype, m, k, n):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 256, size).astype(dtype) for size in ((m, k), (k, n)))
    for x, y in ((a, b), (a.T.copy().T, b.T.copy().T), (np.hstack([a, a])[:, 5:5 + k], np.hstack([b, b])[:, 5:5 + n])):
        expected = x @ y
        left, right = flambeau.from_numpy(x), flambeau.from_numpy(y)
        assert (array(left @ right) == expected).all()
        for found, column in zip((left.mv(right[:, 0]), right.t().mv(left[0])), (expected[:, 0], expected[0])):
            assert (array(found) == column).all()


def test_strided_and_expanded_operands():
    a, b = made(6, 8, 10), made(10, 12)
    close(a[::2, 1::3] @ b[:, ::-1], array(a)[::2, 1::3] @ array(b)[:, ::-1], 1e-12)
    x, y = made(4, 1).expand(4, 5), made(5, 3)
    close(x @ y, array(x) @ array(y), 1e-12)
    close(flambeau.dot(b[:, 0], b[:, 3]), array(b)[:, 0] @ array(b)[:, 3], 1e-12)
    close(flambeau.dot(x[0], x[1]), 5 * array(x)[0, 0] * array(x)[1, 0], 1e-12)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64], ids=str)
@pytest.mark.parametrize("k, n", [(1, 40000), (37, 1031), (260, 4096), (1000, 33), (4103, 11)])
def test_a_row_times_a_matrix(dtype, k, n):
    """Long rows follow the rows of the matrix; every remainder of rows and columns, bias, alpha, beta and steps."""
    rng = np.random.default_rng(k)
    x, b, c = rng.standard_normal((k, 3)), rng.standard_normal((k, n + 2)), rng.standard_normal((1, n))
    row, matrix, bias = (flambeau.tensor(v, dtype=dtype) for v in (x, b, c))
    row, matrix = row[:, 1], matrix[:, 1:n + 1]  # elements and rows apart
    close = {"atol": 1e-3 if dtype == flambeau.float32 else 1e-10, "rtol": 1e-4}
    np.testing.assert_allclose((row @ matrix).numpy(), x[:, 1] @ b[:, 1:n + 1], **close)
    found = flambeau.addmm(bias, row[None], matrix, beta=0.5, alpha=2)
    np.testing.assert_allclose(found.numpy(), 0.5 * c + 2 * (x[:, 1] @ b[:, 1:n + 1]), **close)


def test_large_products_agree_with_small_ones():
    a, b = made(300, 280, dtype="float32"), made(280, 310, dtype="float32")
    whole = array(a @ b)
    for i in (0, 150, 299):
        np.testing.assert_allclose(whole[i], array(a[i] @ b), rtol=0, atol=2e-4)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3)], ids=str)
def test_linear(shape):
    x, w, b = made(*shape), made(5, 3), made(5)
    close(F.linear(x, w, b), array(x) @ array(w).T + array(b), 1e-12)
    close(F.linear(x, w), array(x) @ array(w).T, 1e-12)
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    close(F.linear(turned, w, b[:1]), array(x) @ array(w).T + array(b)[0], 1e-12)


def test_beta_zero_ignores_even_nan():
    self = flambeau.full((2, 2), float("nan"))
    assert flambeau.addmm(self, flambeau.ones(2, 3), flambeau.ones(3, 2), beta=0).tolist() == [[3, 3], [3, 3]]
    assert flambeau.addmv(self[0], flambeau.ones(2, 3), flambeau.ones(3), beta=0).tolist() == [3, 3]


def test_out_and_inplace():
    a, b, out = made(2, 3), made(3, 4), flambeau.empty(0, dtype=flambeau.float64)
    assert flambeau.mm(a, b, out=out) is out
    close(out, array(a) @ array(b), 1e-12)
    c = made(2, 4)
    before = array(c)
    assert c.addmm_(a, b, alpha=2) is c
    close(c, before + 2 * array(a) @ array(b), 1e-12)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)), ("ii->i", (3, 3)), ("ii", (3, 3)),
    ("i,j->ij", (2,), (3,)), ("...ij,...jk", (2, 2, 3), (3, 2)), ("ij->", (2, 3)), ("ij->ji", (2, 3)),
    ("ij,ij,jk->ik", (2, 3), (2, 3), (3, 4)), ("bi,ioj,bj->bo", (2, 3), (3, 5, 4), (2, 4)),
    ("...ii->...i", (2, 3, 3)), ("ba", (2, 3)), ("b...d,d->...b", (2, 3, 4, 5), (5,)), ("Ab,bA->A", (2, 3), (3, 2)),
    ("i j , j k -> k i", (2, 3), (3, 4)), ("ij,kl->ijkl", (2, 3), (2, 2)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case):
    equation, *shapes = case
    operands = [made(*s) for s in shapes]
    expected = np.einsum(equation, *map(array, operands))
    close(flambeau.einsum(equation, *operands), expected, 1e-12)
    close(flambeau.einsum(equation, operands), expected, 1e-12)


def test_einsum_with_sublists_and_broadcast():
    a, b = made(2, 3), made(3, 4)
    close(flambeau.einsum(a, [0, 1], b, [1, 2], [2, 0]), (array(a) @ array(b)).T, 1e-12)
    close(flambeau.einsum("ij,j->i", a, made(1) * 0 + 2), 2 * array(a).sum(1), 1e-12)


@pytest.mark.parametrize("dims", [0, 1, 2, ([1, 2], [1, 0])], ids=str)
def test_tensordot(dims):
    a, b = {0: ((2,), (3, 4)), 1: ((2, 3), (3, 4)), 2: ((2, 3, 4), (3, 4, 5))}.get(
        dims if isinstance(dims, int) else None, ((2, 3, 4), (4, 3, 5)))
    a, b = made(*a), made(*b)
    close(flambeau.tensordot(a, b, dims), np.tensordot(array(a), array(b), dims), 1e-12)


def test_multi_dot_takes_vectors_at_the_ends():
    chain = [made(3), made(3, 4), made(4, 2), made(2)]
    close(flambeau.linalg.multi_dot(chain), np.linalg.multi_dot([array(t) for t in chain]), 1e-12)
    close(flambeau.chain_matmul(*chain[1:3]), array(chain[1]) @ array(chain[2]), 1e-12)
    row = made(1, 4)
    close(flambeau.linalg.vecdot(chain[1], row, dim=1), array(chain[1]) @ array(row)[0], 1e-12)


def zeros(*shape):
    return flambeau.zeros(*shape)


ERRORS = [
    (lambda: flambeau.mm(zeros(2, 3), zeros(4, 5)), "a 2x3 matrix cannot be multiplied by a 4x5 one"),
    (lambda: zeros(2, 3) @ zeros(4, 5), "a 2x3 matrix cannot be multiplied by a 4x5 one"),
    (lambda: flambeau.mm(zeros(3), zeros(3, 2)), "must be a matrix"),
    (lambda: flambeau.bmm(zeros(2, 2, 3), zeros(3, 3, 4)), "batches of matrices"),
    (lambda: flambeau.dot(zeros(2), zeros(3)), "the vectors have 2 and 3 elements"),
    (lambda: flambeau.mv(zeros(2, 3), zeros(2)), "cannot be multiplied by a vector"),
    (lambda: flambeau.matmul(zeros(()), zeros(2)), "without dimensions"),
    (lambda: zeros(2, 3) @ zeros(3, 2).double(), "must have one dtype"),
    (lambda: F.linear(zeros(2, 3), zeros(4, 5)),
     r"input has 3 features but weight expects 5 \(input \[2, 3\], weight \[4, 5\]\)"),
    (lambda: F.linear(zeros(2, 3), zeros(4, 3), zeros(5)), "bias has shape"),
    (lambda: flambeau.addmm(zeros(5), zeros(2, 3), zeros(3, 4)), "cannot be expanded"),
    (lambda: flambeau.einsum("ij,jk", zeros(2, 3), zeros(4, 5)), "subscript j has size"),
    (lambda: flambeau.einsum("ij->k", zeros(2, 3)), "subscript k stands in the output and in no"),
    (lambda: flambeau.einsum("i", zeros(2, 3)), "add the missing ones, or an ellipsis"),
    (lambda: flambeau.tensordot(zeros(2, 3), zeros(4, 5), 1), "summed together"),
]


@pytest.mark.parametrize("call, text", ERRORS, ids=[t for _, t in ERRORS])
def test_errors(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_of_what_is_not_finite_ends(driver):
    """LAPACK looks for the singular values of such a matrix for ever."""
    endless = flambeau.tensor([[-math.inf, 0, 4], [3, 4, 0], [0, 1, 2]])
    right = flambeau.tensor([[1.0, 2], [3, 4], [5, 6]])
    both, rights = flambeau.stack([endless, flambeau.eye(3)]), flambeau.stack([right] * 2)
    found = flambeau.linalg.lstsq(both, rights, driver=driver)
    assert found.solution[0].isnan().all()
    np.testing.assert_allclose(found.solution[1].numpy(), right.numpy(), rtol=1e-5)


def test_linalg_diagonal_is_that_of_the_last_two_dimensions():
    x = flambeau.arange(12).reshape(2, 2, 3)
    assert flambeau.linalg.diagonal(x).tolist() == [[0, 4], [6, 10]]
    assert flambeau.linalg.diagonal(x, offset=1, dim1=0, dim2=1).tolist() == flambeau.diagonal(x, 1).tolist()
    flambeau.linalg.diagonal(x)[0, 0] = 7  # a view
    assert x[0, 0, 0] == 7


@pytest.mark.parametrize("step", [1024, 1100])
def test_a_large_product_of_bfloat16_reads_rows_or_columns(step):
    a = made(1024, 520, dtype="bfloat16")
    b = made(520, step, dtype="bfloat16")[:, step - 1024:]
    bias = made(1024, dtype="bfloat16")
    exact = a.float() @ b.float()
    scale = float(exact.abs().max())
    for other in (b, b.t().contiguous().t()):
        assert float(((a @ other).float() - exact).abs().max()) < 4e-3 * scale
        assert float((flambeau.addmm(bias, a, other).float() - exact - bias.float()).abs().max()) < 4e-3 * scale


@pytest.mark.parametrize("dtype", [flambeau.bfloat16, flambeau.float16])
@pytest.mark.parametrize(("n", "k"), [(1, 5000), (7, 1003), (129, 257), (300, 64)])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_few_rows_with_a_matrix_of_halves(m, n, k, dtype):
    """They read it as it lies; the result is that of float32 sums, rounded once, whatever the number of rows."""
    a, w, b = (flambeau.randn(*shape).to(dtype) for shape in ((m, k), (n, k), (n,)))
    exact, size = a.double() @ w.double().T, a.double().abs() @ w.double().abs().T
    for found, right in ((flambeau.nn.functional.linear(a, w, b), exact + b.double()), (a @ w.T, exact),
                         (w @ a[0], exact[0]),
                         (flambeau.addmm(b, a, w.T, beta=0.5, alpha=2), 0.5 * b.double() + 2 * exact)):
        assert found.dtype is dtype
        allowed = right.abs() * flambeau.finfo(dtype).eps * 0.51 + (size if right.dim() == 2 else size[0]) * 2e-6 + 1e-6
        assert ((found.double() - right).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64, flambeau.int64])
@pytest.mark.parametrize(("n", "k"), [(129, 601), (1100, 97), (530, 400)])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 48, 49])
def test_few_rows_with_a_large_matrix(m, n, k, dtype):
    """Up to eight rows read it as it lies, up to 48 in flat strips; in each layout, on any number of threads."""
    flambeau.manual_seed(m)
    a, b, bias, c = (flambeau.randint(-4, 5, shape).to(dtype) for shape in ((m, k), (k, n), (n,), (m, n)))
    exact = a.double() @ b.double()  # of small whole numbers: every order of sums gives the same
    before = flambeau.get_num_threads()
    for x in (a, a.t().contiguous().t(), a.new_zeros((m, k + 3))[:, 3:].copy_(a)):
        for y in (b, b.t().contiguous().t(), b.new_zeros((k, n + 5))[:, 5:].copy_(b)):
            assert flambeau.equal((x @ y).double(), exact)
            assert flambeau.equal(flambeau.addmm(c, x, y, beta=3, alpha=-2).double(), 3 * c.double() - 2 * exact)
            assert flambeau.equal(flambeau.addmm(bias, x, y).double(), exact + bias.double())
    if dtype.is_floating_point:
        x, y, found = flambeau.randn(m, k, dtype=dtype), flambeau.randn(k, n, dtype=dtype), []
        try:
            for threads in (1, 2, 3):
                flambeau.set_num_threads(threads)
                found.append((x @ y, x @ y.t().contiguous().t()))
        finally:
            flambeau.set_num_threads(before)
        assert all(flambeau.equal(*pair) for other in found[1:] for pair in zip(found[0], other, strict=True))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 128), (17, 33, 65), (48, 40, 1100), (300, 1100, 70),
                                           (260, 530, 514), (530, 1030, 1027)])
def test_products_of_bfloat16_are_rounded_once(m, n, k):
    """Sizes around the blocks of matrix instructions, operands as they lie and turned, what is added to the product,
    and as many threads as the machine has, or one."""
    flambeau.manual_seed(m)
    a, b, bias, c = (flambeau.randn(*shape).bfloat16() for shape in ((m, k), (k, n), (n,), (m, n)))
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    before = flambeau.get_num_threads()
    for x in (a, a.t().contiguous().t(), flambeau.randn(m, k + 3).bfloat16()[:, 3:].copy_(a)):
        for y in (b, b.t().contiguous().t(), b.new_empty(k, 2 * n)[:, ::2].copy_(b)):
            for found, right in ((x @ y, exact), (flambeau.addmm(bias, x, y), exact + bias.double()),
                                 (flambeau.addmm(c, x, y, beta=0.5, alpha=-2), 0.5 * c.double() - 2 * exact)):
                allowed = right.abs() * flambeau.finfo(flambeau.bfloat16).eps * 0.51 + size * 4e-6 + 1e-6
                assert ((found.double() - right).abs() <= allowed).all()
            try:
                flambeau.set_num_threads(1)
                assert flambeau.equal(x @ y, flambeau.addmm(c, x, y, beta=0))
                alone = x @ y
            finally:
                flambeau.set_num_threads(before)
            assert flambeau.equal(alone, x @ y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_batches_of_every_layout(dtype):
    """Matrices of some kilobytes, the next of which are fetched ahead; bfloat16 goes to oneDNN as a whole batch."""
    a, b = made(9, 70, 96, dtype=dtype), made(9, 96, 84, dtype=dtype)
    lefts = [a, a.mT.contiguous().mT, a[:1].expand(9, 70, 96), a.transpose(0, 1).contiguous().transpose(0, 1), a[0]]
    rights = [b, b.mT.contiguous().mT, b[:1].expand(9, 96, 84), b[0]]
    for x in lefts:
        for y in rights:
            expected = np.matmul(array(x.double()), array(y.double()))
            np.testing.assert_allclose(array((x @ y).double()), expected, rtol=TOLERANCE[dtype],
                                       atol=20 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m, k, n", [(8, 8, 8), (3, 5, 2), (16, 16, 16), (9, 1, 20), (17, 33, 31), (2, 40, 48),
                                     (4, 4, 50)])
def test_batches_of_small_matrices(dtype, m, k, n):
    """Rows are read beyond their end where the next matrix follows, and not behind the last one."""
    a, b = made(130, m, k, dtype=dtype), made(130, k, n, dtype=dtype)
    wide = made(130, k, n + 3, dtype=dtype)
    lefts = [a, a.mT.contiguous().mT, a[:1].expand(130, m, k), a.flip(0)]
    rights = [b, wide[:, :, 3:], b[:1].expand(130, k, n), b.transpose(0, 1).contiguous().transpose(0, 1)]
    for x in lefts:
        for y in rights:
            for u, v in ((x, y), (x[:1], y[:1]), (x[::3], y[::3])):
                np.testing.assert_allclose(array(u @ v), np.matmul(array(u.double()), array(v.double())),
                                           rtol=TOLERANCE[dtype], atol=20 * TOLERANCE[dtype])
    assert flambeau.equal((a @ b)[-1], (a[-1:] @ b[-1:])[0])


def test_products_of_bfloat16_whose_rows_share_elements():
    windows, b = made(600, dtype="bfloat16").unfold(0, 128, 1), made(128, 256, dtype="bfloat16")
    expected = windows.double() @ b.double()
    np.testing.assert_allclose(array((windows @ b).double()), array(expected), rtol=2e-2, atol=0.5)
    pages = flambeau.as_strided(made(4500, dtype="bfloat16"), (20, 64, 64), (16, 64, 1))
    found = pages @ b[:64, :64].expand(20, 64, 64)
    np.testing.assert_allclose(array(found.double()), array(pages.double() @ b[:64, :64].double()), rtol=2e-2, atol=0.5)


@pytest.mark.parametrize("m, k, n", [(16, 10000, 16), (7, 4097, 50), (64, 2048, 64)])
def test_long_sums_do_not_depend_on_threads(m, k, n, threads=(1, 2, 3)):
    a, b, c = made(m, k, dtype="float32"), made(k, n, dtype="float32"), made(m, n, dtype="float32")
    before, found = flambeau.get_num_threads(), []
    try:
        for count in threads:
            flambeau.set_num_threads(count)
            found.append(flambeau.addmm(c, a, b, beta=0.5, alpha=2))
    finally:
        flambeau.set_num_threads(before)
    assert all(flambeau.equal(found[0], x) for x in found)
    expected = 0.5 * array(c) + 2 * array(a).astype(float) @ array(b).astype(float)
    np.testing.assert_allclose(array(found[0]), expected, atol=1e-5 * k**0.5 * 4)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_dots_of_long_vectors(dtype):
    for n in (0, 1, 5, 70_000):
        x, y = (flambeau.arange(n).mul(k).remainder(7).sub(3).abs().to(getattr(flambeau, dtype)) for k in (3, 5))
        exact = (x.to(flambeau.complex128) * y).sum() if x.is_complex() else (x.double() * y.double()).sum()
        assert flambeau.equal(x.dot(y), exact.to(x.dtype) if x.is_floating_point() or x.is_complex()
                              else exact.long().to(x.dtype))
        wide = flambeau.stack([x, x], 1)[:, 0]
        assert flambeau.equal(wide.dot(y), x.dot(y))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_of_every_layout(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(37, 29, 2)) @ [1, 1j] for _ in "ab")
    x, y = (flambeau.from_numpy(z.astype(dtype)) for z in (a, b))
    close = {"rtol": 0, "atol": TOLERANCE["complex64"] if dtype == "complex64" else 1e-12}
    v, w = x[0], y[:, 0]
    for found, expected in ((x @ y.t(), a @ b.T), (x.t() @ y, a.T @ b), (x.mH @ y, a.conj().T @ b), (x @ v, a @ a[0]),
                            (x.t() @ w, a.T @ b[:, 0]), (w @ x, b[:, 0] @ a), (v @ x.t(), a[0] @ a.T),
                            (x[::2] @ v, a[::2] @ a[0]), (x[:, ::2].t() @ w, a[:, ::2].T @ b[:, 0]),
                            (flambeau.addmv(w, x, v, alpha=2j, beta=1 + 1j), (1 + 1j) * b[:, 0] + 2j * (a @ a[0])),
                            (flambeau.addmm(y, x, x.t() @ y, alpha=1j, beta=2 - 1j),
                             (2 - 1j) * b + 1j * (a @ (a.T @ b))),
                            (flambeau.baddbmm(y[None], x[None], (x.t() @ y)[None], beta=0.5),
                             (b / 2 + a @ (a.T @ b))[None])):
        np.testing.assert_allclose(found.numpy() / 30, expected / 30, **close)


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("sizes", [(3, 48, 48, 48), (2, 64, 64, 64), (5, 96, 96, 96),
                                   (2, 50, 32, 300), (1, 64, 16, 640)])
def test_batches_of_matrices_that_lie_in_whole_lines_or_not(sizes, offset):
    count, m, n, k = sizes
    flambeau.manual_seed(0)
    a, b = flambeau.rand(count, m, k), flambeau.rand(count * k * n + offset)[offset:].view(count, k, n)
    np.testing.assert_allclose((a @ b).numpy(), a.double().numpy() @ b.double().numpy(), rtol=1e-5)


@pytest.mark.parametrize("rows", [9, 96, 197, 513])
@pytest.mark.parametrize(("k", "n"), [(768, 100), (300, 512), (1000, 49)])
def test_linear_layers_of_some_hundred_rows(rows, k, n):
    flambeau.manual_seed(0)
    x, weight, bias = flambeau.rand(rows, k), flambeau.rand(n, k), flambeau.rand(n)
    expected = x.double().numpy() @ weight.double().numpy().T + bias.double().numpy()
    np.testing.assert_allclose(flambeau.nn.functional.linear(x, weight, bias).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose((x @ weight.t().contiguous()).numpy(), expected - bias.double().numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", [flambeau.float32, flambeau.float64])
@pytest.mark.parametrize(("m", "n", "k"), [(8, 48, 384), (144, 528, 385), (152, 96, 769), (97, 577, 1153),
                                           (5, 1000, 400)])
def test_large_products_are_exact_for_small_integers(m, n, k, dtype):
    # around the sizes at which rows, columns and sums are cut; whole tiles add their bias in registers
    generator = np.random.default_rng(m)
    a, b, c = (generator.integers(-8, 9, shape) for shape in [(m, k), (k, n), (m, n)])
    product, bias = a @ b, c[0]
    as_tensor = [flambeau.tensor(x, dtype=dtype) for x in (a, b, c, bias)]
    for x in (as_tensor[0], as_tensor[0].T.contiguous().T):
        for y in (as_tensor[1], as_tensor[1].T.contiguous().T):
            assert np.array_equal((x @ y).numpy(), product)
            assert np.array_equal(flambeau.nn.functional.linear(x, y.T, as_tensor[3]).numpy(), product + bias)
            assert np.array_equal(flambeau.addmm(as_tensor[2], x, y, beta=3, alpha=2).numpy(), 3 * c + 2 * product)


@pytest.mark.parametrize("norm", (flambeau.linalg.vector_norm, flambeau.linalg.norm, flambeau.norm,
                                  flambeau.linalg.matrix_norm), ids=lambda norm: norm.__name__)
def test_dtypes_of_norms(norm):
    x = flambeau.tensor([[3.0, 4.0]])
    assert norm(x, dtype=flambeau.float64).dtype == norm(x + 0j, dtype=flambeau.complex128).dtype == flambeau.float64
    assert norm(x + 0j, dtype=flambeau.complex64).dtype == flambeau.float32
    for given, dtype in ((x, flambeau.complex64), (x, flambeau.int32), (x + 0j, flambeau.float32)):
        with pytest.raises(RuntimeError, match="is computed in a"):
            norm(given, dtype=dtype)
    with pytest.raises(RuntimeError, match="narrower"):
        norm(x, dtype=flambeau.float16)


def test_factors_of_addr():
    ints = [flambeau.ones(shape, dtype=flambeau.int64) for shape in ((2, 3), 2, 3)]
    assert flambeau.addr(*ints, beta=2, alpha=3).tolist() == [[5, 5, 5]] * 2
    for wrong in (2.5, True, 2j):
        for name in ("beta", "alpha"):
            with pytest.raises(RuntimeError, match=f"addr: {name}"):
                flambeau.addr(*ints, **{name: wrong})
    bools = [t.bool() for t in ints]
    assert flambeau.addr(*bools, beta=False, alpha=2).dtype == flambeau.bool
    assert flambeau.addr(*(t.double() for t in ints), beta=2.5).tolist() == [[3.5] * 3] * 2


def test_products_of_several_dtypes_are_refused():
    with pytest.raises(RuntimeError, match="of one dtype"):
        flambeau.linalg.multi_dot([flambeau.ones(2, 3), flambeau.ones(3, 3).double()])
    with pytest.raises(ValueError, match="no operand"):
        flambeau.einsum("i")
