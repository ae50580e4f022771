"""Decompositions by cuSOLVER and triangular systems by cuBLAS, matrix by matrix; both know matrices by columns."""

import math

from .launches import Build, Parameter, layout, nothing, numel, refuse, row_major, sizes, tensor
from .libraries import NULL, present, refuse_without, run
from .products import expanded

_TYPES = ("float32", "float64", "complex64", "complex128")
_REAL = {"complex64": "float32", "complex128": "float64"}


def _begin(call, library):
    """A Build, once the library is there and computes in the dtype."""
    if not present(call, library):
        refuse_without(call, library)
    if call.args[0].dtype not in _TYPES:
        refuse(call, f"for dtype {call.args[0].dtype}")
    return Build(call)


def _by_columns(shape):
    """The strides of matrices that lie one behind the other, each by its columns."""
    return [*row_major((*shape[:-2], shape[-1], shape[-2]))[:-2], 1, max(shape[-2], 1)]


def _columns(build, info):
    """A copy of matrices that may be overwritten."""
    return build.input_as("a", info, _by_columns(info.shape))


def _batch(info):
    return math.prod(info.shape[:-2])


def _decompose(build, a, operands, way, **more):
    told = {"upper": 0, "vectors": 0, **more}
    run(build, "cusolver.decomposition", operands, way=way, m=a.shape[-2], n=a.shape[-1], batch=_batch(a),
        dtype=a.dtype, **told)


def _take(build, out, room, condition="true"):
    """Elements of matrices by columns into a result; 0 where the condition on `row` and `column` does not hold."""
    kind = build.type(out)
    build.each(numel(out), f"""  const int64_t row = i_ / columns % rows, column = i_ % columns;
  out[offset_of<Index>(i_, to)] = {condition} ? x[offset_of<Index>(i_, from)] : {kind}();
""", [Parameter(f"{kind}* out", tensor("out", out, build.call.name, True).value),
      Parameter(f"const {kind}* x", room.value), layout("to", out.shape, out.strides),
      layout("from", out.shape, _by_columns(out.shape)), *sizes(rows=out.shape[-2], columns=out.shape[-1])],
               index="int64_t")


def _zero(build, info):
    if numel(info):
        build.zeros(build.output("info", info), numel(info) * build.size(info))


def _cholesky(call):
    a, upper, check_errors = call.args
    out, info = call.results
    build = _begin(call, "cusolver")
    if check_errors:
        refuse(call, "with check_errors=True; use linalg.cholesky, which raises")
    if not numel(a):
        _zero(build, info)
        return build.plan()
    given = _columns(build, a)
    _decompose(build, a, (given, build.output("info", info)), "cholesky", upper=int(upper))
    _take(build, out, given, "row <= column" if upper else "column <= row")
    return build.plan()


def _lu(call):
    a, pivot, check_errors = call.args
    out, pivots, info = call.results
    build = _begin(call, "cusolver")
    if check_errors:
        refuse(call, "with check_errors=True; use linalg.lu_factor, which raises")
    if not numel(a):
        _zero(build, info)
        return build.plan()
    given = _columns(build, a)
    order = build.room("order", "int64_t", numel(pivots), 8)
    _decompose(build, a, (given, order if pivot else NULL, build.output("info", info)), "lu")
    _take(build, out, given)
    build.each(numel(pivots), "  out[i_] = order ? int(order[i_]) : int(i_ % count) + 1;\n",
               [build.output("out", pivots), Parameter("const int64_t* order", order.value if pivot else NULL),
                *sizes(count=pivots.shape[-1])])
    return build.plan()


def _eigh(call):
    a, uplo, vectors = call.args
    values, out = call.results
    if not numel(a):
        return nothing()
    build = _begin(call, "cusolver")
    given, info = _columns(build, a), build.room("info", "int", _batch(a), 4)
    _decompose(build, a, (given, build.output("values", values), info), "eigh", upper=int(uplo in ("U", "u")),
               vectors=int(vectors))
    if vectors:
        _take(build, out, given)
    return build.plan()


def _transposed(info):
    return info._replace(shape=(*info.shape[:-2], info.shape[-1], info.shape[-2]),
                         strides=(*info.strides[:-2], info.strides[-1], info.strides[-2]))


def _svd(call):
    a, full, vectors = call.args
    u, s, v = call.results
    build = _begin(call, "cusolver")
    if not numel(a):  # then any orthogonal matrices are right
        for out in filter(numel, (u, v)):
            kind = build.type(out)
            build.each(numel(out), f"  out[i_] = {kind}(i_ / columns % rows == i_ % columns ? 1 : 0);\n",
                       [build.output("out", out), *sizes(rows=out.shape[-2], columns=out.shape[-1])])
        return build.plan()
    if a.shape[-2] < a.shape[-1]:  # cuSOLVER wants no fewer rows than columns: the transpose exchanges U and V
        a, u, v = _transposed(a), _transposed(v), _transposed(u)
    given, info = _columns(build, a), build.room("info", "int", _batch(a), 4)
    left = right = NULL
    if vectors:
        left, right = (build.room(name, build.type(t), numel(t), build.size(t)) for name, t in (("u", u), ("v", v)))
    _decompose(build, a, (given, build.output("s", s), left, right, info), "svd", vectors=(2 if full else 1) if vectors
               else 0)
    if vectors:
        _take(build, u, left)
        _take(build, v, right)
    return build.plan()


def _triangular(call):
    a, b, upper, left, unit = call.args
    out = call.results[0]
    build = _begin(call, "cublas")
    if not numel(out):
        return nothing()
    n = a.shape[-1]
    wide_a, wide_b = expanded(a, (*out.shape[:-2], n, n)), expanded(b, out.shape)
    factor, given = _columns(build, wide_a), _columns(build, wide_b)
    run(build, "cublas.triangular", (factor, given), m=out.shape[-2], n=out.shape[-1], batch=_batch(out), left=left,
        upper=upper, unit=unit, dtype=out.dtype)
    _take(build, out, given)
    return build.plan()


def _permutation(call):
    """Row exchanges one after the other, as a permutation: a thread for each matrix."""
    pivots, rows = call.args
    build, out = Build(call), call.results[0]
    if not numel(out):
        return nothing()
    kind = build.type(out)
    build.each(numel(out) // rows, f"""  {kind}* p = out + i_ * rows;
  for (int64_t k = 0; k < rows; ++k) p[k] = k;
  for (int64_t k = 0; k < count; ++k) {{
    const int64_t other = pivots[i_ * count + k] - 1;
    const {kind} kept = p[k];
    p[k] = p[other];
    p[other] = kept;
  }}
""", [build.input("pivots", pivots), build.output("out", out), *sizes(rows=rows, count=pivots.shape[-1])])
    return build.plan()


RULES = {
    "linalg_cholesky_ex": _cholesky, "linalg_lu_factor_ex": _lu, "_linalg_eigh": _eigh, "_linalg_svd": _svd,
    "_solve_triangular": _triangular, "_permutation_of_pivots": _permutation,
}
