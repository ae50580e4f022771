"""Sample matrices: well-conditioned, positive-definite, triangular, and the calls of linear algebra made of them."""

from .calls import call

INF = float("inf")


def _numbers(m, count, low=-1.0, high=1.0):
    draw = m.random.uniform
    if "complex" in str(m.dtype):
        return [complex(draw(low, high), draw(low, high)) for _ in range(count)]
    return [draw(low, high) for _ in range(count)]


def _made(m, values, shape, grad=True):
    name = str(m.dtype)
    if "bool" in name or "int" in name:
        values = [abs(round(v.real)) for v in values]
    made = m.tensor(values, shape, m.dtype)
    if grad and m.requires_grad and ("float" in name or "complex" in name):
        made.requires_grad_()
    return made


def _batched(m, batch, one, shape):
    count = 1
    for n in batch:
        count *= n
    return _made(m, [v for _ in range(count) for v in one()], (*batch, *shape))


def square(m, n, *batch):
    """Invertible: random numbers with a dominant diagonal, the eigenvalues far apart."""
    def one():
        values = _numbers(m, n * n, -0.4, 0.4)
        for k in range(n):
            values[k * (n + 1)] += 1.5 + k
        return values
    return _batched(m, batch, one, (n, n))


def positive(m, n, *batch):
    """Hermitian positive-definite, the eigenvalues far apart."""
    def one():
        a = _numbers(m, n * n, -0.4, 0.4)
        values = []
        for i in range(n):
            for j in range(n):
                v = sum(a[i * n + k] * complex(a[j * n + k]).conjugate() for k in range(n))
                v += (1.5 + i) * (i == j)
                values.append(v if "complex" in str(m.dtype) else v.real)
        return values
    return _batched(m, batch, one, (n, n))


def triangular(m, n, upper, *batch):
    def one():
        values = _numbers(m, n * n, -0.5, 0.5)
        for i in range(n):
            values[i * (n + 1)] += 2
            for j in range(i):
                values[(j * n + i) if not upper else (i * n + j)] = 0.0
        return values
    return _batched(m, batch, one, (n, n))


def squares(m):
    for n, batch in ((3, ()), (1, ()), (2, (2,)), (0, ()), (2, (0,))):
        yield call(square(m, n, *batch))


def matrices(m):
    for shape in ((3, 3), (4, 2), (2, 3), (2, 2, 3), (0, 3), (0, 2, 2)):
        yield call(m.f(*shape))


def tall(m):
    for shape in ((3, 3), (4, 2), (2, 3, 2)):
        yield call(m.f(*shape))


def positive_definite(m):
    for n, batch in ((3, ()), (1, ()), (2, (2,)), (0, ())):
        yield call(positive(m, n, *batch))


def triangular_factor(m):
    yield call(triangular(m, 3, False))
    yield call(triangular(m, 2, True, 2), True)


def cholesky_solve(m):
    yield call(m.f(3, 2), triangular(m, 3, False))
    yield call(m.f(2, 2, 1), triangular(m, 2, True, 2), True)


def solve_triangular(m):
    yield call(triangular(m, 3, True), m.f(3, 2), upper=True)
    yield call(triangular(m, 3, False, 2), m.f(2, 2, 3), upper=False, left=False)
    yield call(triangular(m, 2, True), m.f(2, 2, 1), upper=True, unitriangular=True)


def triangular_solve(m):
    yield call(m.f(3, 2), triangular(m, 3, True))
    yield call(m.f(3, 2), triangular(m, 3, False), False, True)


def solve(m):
    yield call(square(m, 3), m.f(3, 2))
    yield call(square(m, 3), m.f(3))
    yield call(square(m, 2, 2), m.f(2, 2, 2), left=True)
    yield call(square(m, 2), m.f(3, 2), left=False)
    yield call(square(m, 2, 2, 1), m.f(2, 2, 1))
    yield call(square(m, 0), m.f(0, 2))


def _pivots(m, *values):
    return m.tensor(list(values), (len(values),), m.int_dtype).int()


def lu_solve(m):
    yield call(square(m, 3), _pivots(m, 1, 3, 3), m.f(3, 2))
    yield call(square(m, 2), _pivots(m, 2, 2), m.f(2, 2), adjoint=True)
    yield call(square(m, 2), _pivots(m, 1, 2), m.f(3, 2), left=False)


def qr(m):
    yield call(m.f(3, 3))
    yield call(m.f(4, 2))
    yield call(m.f(2, 3))
    yield call(m.f(2, 2, 2), "complete")
    yield call(m.f(2, 3), mode="complete")
    yield call(m.f(0, 2))


def reflections(m):
    yield call(m.f(3, 2), m.f(2))
    yield call(m.f(2, 3, 3), m.f(2, 2))


def lstsq(m):
    yield call(m.f(4, 2), m.f(4, 3))
    yield call(m.f(2, 3, 3), m.f(2, 3, 1), driver="gelsd")
    yield call(m.f(4, 2), m.f(4, 1), driver="gels")


def matrix_norm(m):
    for ord in ("fro", "nuc", 2, -2, 1, -1, INF, -INF):
        yield call(m.distinct(3, 2), ord)
    yield call(m.distinct(2, 3, 2), "nuc", (0, 2), True)
    yield call(m.distinct(2, 3, 2), 2)


def linalg_norm(m):
    yield call(m.f(2, 3))
    yield call(m.f(2, 3), 2)
    yield call(m.f(4), 3)
    yield call(m.f(2, 3), 1, 1, True)
    yield call(m.f(2, 3, 2), "nuc", (0, 1))


def matrix_power(m):
    for n in (0, 1, 2, 5, -1, -3):
        yield call(square(m, 3), n)
    yield call(square(m, 2, 2), 3)


def cross_pairs(m):
    yield call(m.f(3), m.f(3))
    yield call(m.f(2, 3), m.f(1, 3))
    yield call(m.f(3, 2), m.f(3, 2), dim=0)
    yield call(m.f(0, 3), m.f(0, 3))


def vander(m):
    yield call(m.f(3))
    yield call(m.f(2, 3), N=2)
    yield call(m.f(4), N=1)


def tensorinv(m):
    yield call(_made(m, square(m, 4).detach().reshape(-1).tolist(), (2, 2, 4)))
    yield call(_made(m, square(m, 4).detach().reshape(-1).tolist(), (4, 2, 2)), 1)


def tensorsolve(m):
    yield call(_made(m, square(m, 4).detach().reshape(-1).tolist(), (2, 2, 4)), m.f(2, 2))


LINALG_FORMS = {
    "squares": squares, "matrices": matrices, "tall": tall, "positive_definite": positive_definite,
    "triangular_factor": triangular_factor, "cholesky_solve": cholesky_solve, "solve_triangular": solve_triangular,
    "triangular_solve": triangular_solve, "solve": solve, "lu_solve": lu_solve, "qr": qr, "reflections": reflections,
    "lstsq": lstsq, "matrix_norm": matrix_norm, "linalg_norm": linalg_norm, "matrix_power": matrix_power,
    "cross_pairs": cross_pairs, "linalg_vander": vander, "tensorinv": tensorinv, "tensorsolve": tensorsolve,
}
