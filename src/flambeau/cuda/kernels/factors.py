"""Reflections (QR), LDL and the eigenvalues of any square matrix by cuSOLVER, matrix by matrix and by columns."""

from .cusolver import Infinite, batch_of, begin, check, columns, take, unit, zero
from .launches import Parameter, nothing, numel, refuse, sizes
from .libraries import NULL, run
from .products import expanded


def _call(build, way, operands, like, m=0, n=0, k=0, **more):
    told = {"left": 0, "transposed": 0, "vectors": 0, **more}
    run(build, "cusolver.factors", operands, way=way, m=m, n=n, k=k, batch=batch_of(like), dtype=like.dtype, **told)


def _numbers(build, like):
    return build.room("info", "int", batch_of(like), 4)


def _first_columns(build, given, info, wanted):
    """The first columns of matrices by columns, as many of them as a matrix of the shape `wanted` has room for; zeros
    behind them."""
    kind, (m, n), k = build.type(info), info.shape[-2:], wanted[-1]
    batch = batch_of(info)
    room = build.room("q", kind, batch * m * k, build.size(info))
    build.each(batch * m * k, f"""  const int64_t column = i_ / rows % taken, at = i_ / (rows * taken);
  q[i_] = column < columns ? x[(at * columns + column) * rows + i_ % rows] : {kind}();
""", [room, Parameter(f"const {kind}* x", given.value), *sizes(rows=m, columns=n, taken=k)], index="int64_t")
    return room


def _geqrf(call):
    a, (out, tau) = call.args[0], call.results
    build = begin(call, "cusolver")
    if not numel(a):
        return nothing()
    given = columns(build, a)
    _call(build, "geqrf", (given, build.output("tau", tau), _numbers(build, a)), a, *a.shape[-2:])
    take(build, out, given)
    return build.plan()


def _qr(call):
    a, mode = call.args
    q, r = call.results
    build = begin(call, "cusolver")
    m, n = a.shape[-2:]
    few = min(m, n)
    if not numel(a):
        if numel(q):
            unit(build, q)
        return build.plan()
    given, info = columns(build, a), _numbers(build, a)
    tau = build.room("tau", build.type(a), batch_of(a) * few, build.size(a))
    _call(build, "geqrf", (given, tau, info), a, m, n)
    kind = build.type(a)
    build.each(numel(r), f"""  const int64_t row = i_ / columns % kept, column = i_ % columns;
  const int64_t at = i_ / (columns * kept);
  out[i_] = row <= column ? x[(at * columns + column) * rows + row] : {kind}();
""", [build.output("out", r), Parameter(f"const {kind}* x", given.value),
      *sizes(rows=m, columns=n, kept=r.shape[-2])], index="int64_t")
    if mode != "r":
        found = _first_columns(build, given, a, q.shape)
        _call(build, "orgqr", (found, tau, info), a, m, q.shape[-1], few)
        take(build, q, found)
    return build.plan()


def _householder_product(call):
    a, tau = call.args
    out, k = call.results[0], tau.shape[-1]
    build = begin(call, "cusolver")
    if not numel(a):
        return nothing()
    if not k:
        unit(build, out)
        return build.plan()
    given = columns(build, a)
    _call(build, "orgqr", (given, build.input("tau", tau), _numbers(build, a)), a, *a.shape[-2:], k)
    take(build, out, given)
    return build.plan()


def _ormqr(call):
    a, tau, other, left, transpose = call.args
    out, k = call.results[0], tau.shape[-1]
    build = begin(call, "cusolver")
    if not numel(out):
        return nothing()
    given = columns(build, other)
    if k:
        reflections = _first_columns(build, columns(build, a), a, (a.shape[-2], k))
        _call(build, "ormqr", (reflections, build.input("tau", tau), given, _numbers(build, other)), other,
              *other.shape[-2:], k, left=int(left), transposed=int(transpose))
    take(build, out, given)
    return build.plan()


# --- LDL -------------------------------------------------------------------------------------------------------------

def _only_symmetric(call, like, hermitian):
    if hermitian and like.dtype.startswith("complex"):
        refuse(call, "of complex matrices with hermitian=True, which cuSOLVER has not got")


def _ldl(call):
    a, hermitian, check_errors = call.args
    out, pivots, info = call.results
    build = begin(call, "cusolver")
    _only_symmetric(call, a, hermitian)
    if not numel(a):
        zero(build, info)
        return build.plan()
    given, failed = columns(build, a), build.output("info", info)
    _call(build, "sytrf", (given, build.output("pivots", pivots), failed), a, n=a.shape[-1])
    take(build, out, given, "column <= row")
    if check_errors:
        check(build, failed, a, call.name)
    return build.plan()


def _ldl_solve(call):
    factors, pivots, b, hermitian = call.args
    out = call.results[0]
    build = begin(call, "cusolver")
    _only_symmetric(call, factors, hermitian)
    if not numel(out):
        return nothing()
    n, batch = out.shape[-2], out.shape[:-2]
    wide = expanded(factors, (*batch, n, n))
    each = build.packed("each", expanded(pivots, (*batch, n)))
    order = build.room("order", "int64_t", batch_of(out) * n, 8)
    build.copy(order.value, each.value, batch_of(out) * n, "int64_t", build.type(pivots))
    given = columns(build, expanded(b, out.shape))
    _call(build, "sytrs", (columns(build, wide), order, given, _numbers(build, out)), out, n=n, k=out.shape[-1])
    take(build, out, given)
    return build.plan()


# --- eigenvalues -----------------------------------------------------------------------------------------------------

def _eig(call):
    a, vectors = call.args
    values, out = call.results
    build = begin(call, "cusolver")
    if not numel(a):
        return nothing()
    n = a.shape[-1]
    given, info = columns(build, a), _numbers(build, a)
    infinite, found = Infinite(build, given, a), build.output("values", values)
    right = build.room("right", build.type(a), numel(a), build.size(a)) if vectors else None
    _call(build, "geev", (given, found, right or NULL, info), a, n=n, vectors=int(vectors))
    infinite.mark(info)
    if vectors and a.dtype == values.dtype:
        take(build, out, right)
    elif vectors:
        _take_pairs(build, out, right, found, a)
    check(build, info, a, "linalg.eig")
    return build.plan()


def _take_pairs(build, out, right, values, a):
    """Of a real matrix: the vectors of two conjugate eigenvalues come as the real and the imaginary part of the first
    of them."""
    from_real, kind = build.type(a), build.type(out)
    spread = build.room("spread", kind, numel(out), build.size(out))
    build.each(numel(out), f"""  const int64_t row = i_ % n, column = i_ / n % n, begin = i_ / (n * n) * n * n;
  const {from_real} turn = values[i_ / (n * n) * n + column].imag();
  const int64_t first = begin + (turn < 0 ? column - 1 : column) * n + row;
  spread[i_] = {kind}(x[first], turn == 0 ? {from_real}(0) : turn > 0 ? x[first + n] : -x[first + n]);
""", [spread, Parameter(f"const {from_real}* x", right.value), Parameter(f"const {kind}* values", values.value),
      *sizes(n=a.shape[-1])], index="int64_t")
    take(build, out, spread)


RULES = {
    "geqrf": _geqrf, "linalg_qr": _qr, "_householder_product": _householder_product, "_ormqr": _ormqr,
    "linalg_ldl_factor_ex": _ldl, "_ldl_solve": _ldl_solve, "_linalg_eig": _eig,
}
