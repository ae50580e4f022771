"""QR by reflections: one matrix after the other by cuSOLVER; whole batches by cuBLAS, with Q by a kernel of our own."""

from .cusolver import addresses, at_once, batch_of, begin, columns, take, unit
from .launches import Parameter, flag, nothing, numel, sizes
from .libraries import run
from .plans import Number


def _call(build, way, operands, like, m, n, k=0, **more):
    told = {"left": 0, "transposed": 0, "vectors": 0, **more}
    run(build, "cusolver.factors", operands, way=way, m=m, n=n, k=k, batch=batch_of(like), dtype=like.dtype, **told)


def _numbers(build, like):
    return build.room("info", "int", batch_of(like), 4)


def factor_all(build, given, tau, a):
    """The reflections and R of a whole batch of matrices by columns, over them."""
    few = min(a.shape[-2:])
    run(build, "cublas.batched", (addresses(build, given, a), addresses(build, tau, a, few)), way="qr", m=a.shape[-2],
        n=a.shape[-1], batch=batch_of(a), left=0, upper=0, unit=0, dtype=a.dtype)


def _factor(call, build, given, tau, a):
    if at_once(call, a, "cublas"):
        factor_all(build, given, tau, a)
    else:
        _call(build, "geqrf", (given, tau, _numbers(build, a)), a, *a.shape[-2:])


def apply(build, like, x, rows, width, v, tau, count, taken, left=True, adjoint=False):
    """x (rows by width, by columns, one for each matrix of the batch of `like`) becomes Q x or x Q, by a warp for each
    column or row. v: matrices with `taken` columns; tau: `count` factors for each."""
    kind, (length, vectors) = build.type(like), (rows, width) if left else (width, rows)
    build.run(f"""  const int64_t matrix = blockIdx.x / vectors, own = blockIdx.x % vectors;
  reflect(x + matrix * length * vectors + own * begin, step, length, v + matrix * taken * length, tau + matrix * count,
          count, {flag(left == adjoint)}, {flag(adjoint)}, {flag(not left)});
""", [Parameter(f"{kind}* x", x.value), Parameter(f"const {kind}* v", v.value),
      Parameter(f"const {kind}* tau", tau.value),
      *sizes(length=length, vectors=vectors, begin=length if left else 1, step=1 if left else rows, taken=taken,
             count=count)], batch_of(like) * vectors, 32, ("reflections.cuh",))


def product_of(build, like, v, tau, rows, width, count, taken, inner=None):
    """Q, or its first columns, by columns; with `inner`, square matrices by columns of `count`, Q times these with ones
    on the diagonal beside them."""
    kind = build.type(like)
    room = build.room("q", kind, batch_of(like) * rows * width, build.size(like))
    given = inner.value if inner else Number(bytes(8))
    build.each(batch_of(like) * rows * width, f"""  const int64_t row = i_ % rows, column = i_ / rows % width;
  const bool inside = inner && row < count && column < count;
  q[i_] = inside ? inner[(i_ / (rows * width) * count + column) * count + row] : {kind}(row == column ? 1 : 0);
""", [room, Parameter(f"const {kind}* inner", given), *sizes(rows=rows, width=width, count=count)], index="int64_t")
    apply(build, like, room, rows, width, v, tau, count, taken)
    return room


def upper(build, given, a, out, rows, by_columns=False):
    """R into `out`: the first rows of matrices by columns, 0 below the diagonal."""
    kind = build.type(a)
    row, column = ("i_ % kept", "i_ / kept % columns") if by_columns else ("i_ / columns % kept", "i_ % columns")
    build.each(batch_of(a) * rows * a.shape[-1], f"""  const int64_t row = {row}, column = {column};
  const int64_t at = i_ / (columns * kept);
  out[i_] = row <= column ? x[(at * columns + column) * rows + row] : {kind}();
""", [Parameter(f"{kind}* out", out.value), Parameter(f"const {kind}* x", given.value),
      *sizes(rows=a.shape[-2], columns=a.shape[-1], kept=rows)], index="int64_t")


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


# --- rules ------------------------------------------------------------------------------------------------------------

def _geqrf(call):
    a, (out, tau) = call.args[0], call.results
    build = begin(call, "cusolver")
    if not numel(a):
        return nothing()
    given = columns(build, a)
    _factor(call, build, given, build.output("tau", tau), a)
    take(build, out, given)
    return build.plan()


def _qr(call):
    a, mode = call.args
    q, r = call.results
    build = begin(call, "cusolver")
    few = min(a.shape[-2:])
    if not numel(a):
        if numel(q):
            unit(build, q)
        return build.plan()
    given = columns(build, a)
    tau = build.room("tau", build.type(a), batch_of(a) * few, build.size(a))
    _factor(call, build, given, tau, a)
    upper(build, given, a, build.output("out", r), r.shape[-2])
    if mode != "r":
        take(build, q, _q(call, build, given, a, tau, few, q.shape))
    return build.plan()


def _q(call, build, given, a, tau, count, wanted):
    """As many columns of Q as `wanted` has, by columns."""
    if at_once(call, a):
        return product_of(build, a, given, tau, a.shape[-2], wanted[-1], count, a.shape[-1])
    found = _first_columns(build, given, a, wanted)
    _call(build, "orgqr", (found, tau, _numbers(build, a)), a, a.shape[-2], wanted[-1], count)
    return found


def _householder_product(call):
    a, tau = call.args
    out, k = call.results[0], tau.shape[-1]
    build = begin(call, "cusolver")
    if not numel(a):
        return nothing()
    if not k:
        unit(build, out)
        return build.plan()
    take(build, out, _q(call, build, columns(build, a), a, build.input("tau", tau), k, a.shape))
    return build.plan()


def _ormqr(call):
    a, tau, other, left, transpose = call.args
    out, k = call.results[0], tau.shape[-1]
    build = begin(call, "cusolver")
    if not numel(out):
        return nothing()
    given = columns(build, other)
    if k and at_once(call, a):
        apply(build, other, given, *other.shape[-2:], columns(build, a), build.input("tau", tau), k, a.shape[-1],
              bool(left), bool(transpose))
    elif k:
        reflections = _first_columns(build, columns(build, a), a, (a.shape[-2], k))
        _call(build, "ormqr", (reflections, build.input("tau", tau), given, _numbers(build, other)), other,
              *other.shape[-2:], k, left=int(left), transposed=int(transpose))
    take(build, out, given)
    return build.plan()


RULES = {"geqrf": _geqrf, "linalg_qr": _qr, "_householder_product": _householder_product, "_ormqr": _ormqr}
