"""Decompositions by cuSOLVER and triangular systems by cuBLAS; both know matrices by columns.

Batches of small matrices are decomposed by one call where the libraries have one, else matrix by matrix.
"""

import math

from .launches import Build, Parameter, layout, nothing, numel, refuse, row_major, sizes, tensor
from .libraries import NULL, present, refuse_without, run
from .plans import Check
from .products import expanded

_TYPES = ("float32", "float64", "complex64", "complex128")
#: the largest matrices of which several are decomposed by one call
SMALL = 512


def begin(call, library):
    """A Build, once the library is there and computes in the dtype."""
    if not present(call, library):
        refuse_without(call, library)
    if call.args[0].dtype not in _TYPES:
        refuse(call, f"for dtype {call.args[0].dtype}")
    return Build(call)


def by_columns(shape):
    """The strides of matrices that lie one behind the other, each by its columns."""
    return [*row_major((*shape[:-2], shape[-1], shape[-2]))[:-2], 1, max(shape[-2], 1)]


def columns(build, info):
    """A copy of matrices that may be overwritten."""
    return build.input_as("a", info, by_columns(info.shape))


def batch_of(info):
    return math.prod(info.shape[:-2])


def decompose(build, a, operands, way, function="decomposition", **more):
    """The call for one matrix after the other."""
    told = {"upper": 0, "vectors": 0, **more}
    run(build, f"cusolver.{function}", operands, way=way, m=a.shape[-2], n=a.shape[-1], batch=batch_of(a),
        dtype=a.dtype, **told)


def decompose_all(build, a, operands, way, **more):
    """The call for a whole batch."""
    decompose(build, a, operands, way, "batch", **more)


def take(build, out, room, condition="true", strides=None, value="{}"):
    """Elements of matrices, by columns unless strides are given, into a result; 0 where the condition on `row` and
    `column` does not hold."""
    kind = build.type(out)
    taken = value.format("x[offset_of<Index>(i_, from)]")
    build.each(numel(out), f"""  const int64_t row = i_ / columns % rows, column = i_ % columns;
  out[offset_of<Index>(i_, to)] = {condition} ? {taken} : {kind}();
""", [Parameter(f"{kind}* out", tensor("out", out, build.call.name, True).value),
      Parameter(f"const {kind}* x", room.value), layout("to", out.shape, out.strides),
      layout("from", out.shape, strides or by_columns(out.shape)), *sizes(rows=out.shape[-2], columns=out.shape[-1])],
               index="int64_t")


def unit(build, out):
    """Ones on the diagonal, zeros beside it."""
    kind = build.type(out)
    build.each(numel(out), f"  out[i_] = {kind}(i_ / columns % rows == i_ % columns ? 1 : 0);\n",
               [build.output("out", out), *sizes(rows=out.shape[-2], columns=out.shape[-1])])


def zero(build, info):
    if numel(info):
        build.zeros(build.output("info", info), numel(info) * build.size(info))


def check(build, info, a, api):
    """Raises what the numbers in `info`, one for each matrix, tell of a failure."""
    build.steps.append(Check(info.value, batch_of(a), api, len(a.shape) > 2))


class Infinite:
    """Finds matrices that hold an infinity or NaN and makes them 0 before a library sees them, which may answer with an
    error, or not at all. Afterwards they are marked as failed, or what was found is NaN."""

    def __init__(self, build, given, a):
        self.build, self.batch, count = build, batch_of(a), a.shape[-2] * a.shape[-1]
        self.found = build.room("found", "int", self.batch, 4)
        build.zeros(self.found, 4 * self.batch)
        parameters = [Parameter(f"{build.type(a)}* x", given.value), self.found, *sizes(count=count)]
        for body in ("if (!is_finite(x[i_])) found[i_ / count] = 1;",
                     f"if (found[i_ / count]) x[i_] = {build.type(a)}(0);"):
            build.each(self.batch * count, f"  {body}\n", parameters)

    def mark(self, info):
        """They failed (kNotFinite of native/kernels/matrices.h)."""
        self.build.each(self.batch, "  if (found[i_]) info[i_] = -1;\n",
                        [self.found, Parameter("int* info", info.value)])

    def lose(self, place, kind, count):
        """`count` numbers of each become NaN."""
        self.build.each(self.batch * count, f"  if (found[i_ / count]) x[i_] = not_a_number<{kind}>();\n",
                        [self.found, Parameter(f"{kind}* x", place.value), *sizes(count=count)])


def addresses(build, given, a, count=None):
    """The addresses of the matrices of a batch, or of `count` numbers for each, one after the other in memory of the
    device."""
    room = build.room("places", "int64_t", batch_of(a), 8)
    build.each(batch_of(a), "  places[i_] = reinterpret_cast<int64_t>(x + i_ * count);\n",
               [room, Parameter(f"const {build.type(a)}* x", given.value),
                *sizes(count=count or a.shape[-2] * a.shape[-1])], index="int64_t")
    return room


def at_once(call, a, library="cusolver"):
    """Whether a batch is given to the library as one."""
    return batch_of(a) > 1 and max(a.shape[-2:]) <= SMALL and present(call, library)


def _cholesky(call):
    a, upper, check_errors = call.args
    out, info = call.results
    build = begin(call, "cusolver")
    if not numel(a):
        zero(build, info)
        return build.plan()
    given, failed = columns(build, a), build.output("info", info)
    if at_once(call, a):
        decompose_all(build, a, (addresses(build, given, a), failed), "cholesky", upper=int(upper))
    else:
        decompose(build, a, (given, failed), "cholesky", upper=int(upper))
    take(build, out, given, "row <= column" if upper else "column <= row")
    if check_errors:
        check(build, failed, a, call.name)
    return build.plan()


def _lu(call):
    a, pivot, check_errors = call.args
    out, pivots, info = call.results
    build = begin(call, "cusolver")
    if not numel(a):
        zero(build, info)
        return build.plan()
    given, failed, rows = columns(build, a), build.output("info", info), build.output("out", pivots)
    if a.shape[-2] == a.shape[-1] and at_once(call, a, "cublas"):
        run(build, "cublas.batched", (addresses(build, given, a), rows if pivot else NULL, failed), way="lu",
            m=a.shape[-2], n=a.shape[-1], batch=batch_of(a), left=0, upper=0, unit=0, dtype=a.dtype)
        order = None
    else:
        order = build.room("order", "int64_t", numel(pivots), 8)
        decompose(build, a, (given, order if pivot else NULL, failed), "lu")
    take(build, out, given)
    if order or not pivot:
        build.each(numel(pivots), "  out[i_] = order ? int(order[i_]) : int(i_ % count) + 1;\n",
                   [rows, Parameter("const int64_t* order", order.value if pivot else NULL),
                    *sizes(count=pivots.shape[-1])])
    if check_errors:
        check(build, failed, a, call.name)
    return build.plan()


def _eigh(call):
    a, uplo, vectors = call.args
    values, out = call.results
    if not numel(a):
        return nothing()
    build = begin(call, "cusolver")
    given, info = columns(build, a), build.room("info", "int", batch_of(a), 4)
    infinite, found = Infinite(build, given, a), build.output("values", values)
    way = decompose_all if at_once(call, a) else decompose
    way(build, a, (given, found, info), "eigh", upper=int(uplo in ("U", "u")), vectors=int(vectors))
    infinite.lose(found, build.type(values), a.shape[-1])
    if vectors:
        infinite.lose(given, build.type(a), a.shape[-1] ** 2)
        take(build, out, given)
    check(build, info, a, "linalg.eigh")
    return build.plan()


def _triangular(call):
    a, b, upper, left, unit = call.args
    out = call.results[0]
    build = begin(call, "cublas")
    if not numel(out):
        return nothing()
    n = a.shape[-1]
    wide_a, wide_b = expanded(a, (*out.shape[:-2], n, n)), expanded(b, out.shape)
    factor, given = columns(build, wide_a), columns(build, wide_b)
    operands, way = (factor, given), {}
    if at_once(call, wide_a, "cublas"):
        operands, way = (addresses(build, factor, wide_a), addresses(build, given, wide_b)), {"way": "triangular"}
    run(build, "cublas.batched" if way else "cublas.triangular", operands, m=out.shape[-2], n=out.shape[-1],
        batch=batch_of(out), left=left, upper=upper, unit=unit, dtype=out.dtype, **way)
    take(build, out, given)
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
    "linalg_cholesky_ex": _cholesky, "linalg_lu_factor_ex": _lu, "_linalg_eigh": _eigh,
    "_solve_triangular": _triangular, "_permutation_of_pivots": _permutation,
}
