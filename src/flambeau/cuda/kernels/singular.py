"""Singular values: matrix by matrix by cuSOLVER; batches of matrices with few columns by its rotations, of wider ones,
and all where it is not installed, by rotations of our own.

cuSOLVER's approximate function for tall matrices is not used: it works on A^H A, which loses singular values below the
root of the rounding error. Tall matrices are reduced to R by reflections instead, which loses nothing.
"""

from .cusolver import (
    SMALL,
    Infinite,
    batch_of,
    begin,
    by_columns,
    check,
    columns,
    decompose,
    decompose_all,
    take,
    unit,
)
from .launches import Build, Parameter, numel, row_major, sizes
from .libraries import NULL, present
from .reflections import factor_all, product_of, upper

#: the most rows and columns of matrices that cuSOLVER rotates, as it documents
_ROTATED = 32


def _transposed(info):
    return info._replace(shape=(*info.shape[:-2], info.shape[-1], info.shape[-2]),
                         strides=(*info.strides[:-2], info.strides[-1], info.strides[-2]))


def _svd(call):
    a, full, vectors = call.args
    u, s, v = call.results
    solver = present(call, "cusolver")
    build = begin(call, "cusolver") if solver else Build(call)
    if not numel(a):  # then any orthogonal matrices are right
        for out in filter(numel, (u, v)):
            unit(build, out)
        return build.plan()
    if a.shape[-2] < a.shape[-1]:  # no fewer rows than columns: the transpose exchanges U and V
        a = _transposed(a)
        u, v = (_transposed(v), _transposed(u)) if vectors else (u, v)
    given, info = columns(build, a), build.room("info", "int", batch_of(a), 4)
    infinite = Infinite(build, given, a)
    values = build.output("s", s)
    found = (u, v) if vectors else (None, None)
    if solver and (batch_of(a) == 1 or a.shape[-1] > SMALL):
        _one_by_one(build, a, given, values, info, *found, full)
    else:
        _rotate(build, a, given, values, info, *found)
    infinite.mark(info)
    check(build, info, a, "linalg.svd")
    return build.plan()


def _room(build, a, *shape):
    count = batch_of(a)
    for size in shape:
        count *= size
    return build.room("room", build.type(a), count, build.size(a))


def _one_by_one(build, a, given, values, info, u, v, full):
    left, right = (NULL, NULL) if u is None else (_room(build, a, *t.shape[-2:]) for t in (u, v))
    decompose(build, a, (given, values, left, right, info), "svd", vectors=0 if u is None else 2 if full else 1)
    if u is not None:
        take(build, u, left)
        take(build, v, right)


def _rotate(build, a, given, values, info, u, v):
    """All matrices at once; those that cuSOLVER does not take, or that have more rows than columns, as R where cuBLAS
    finds it."""
    m, n = a.shape[-2:]
    solver, blas = (present(build.call, name) for name in ("cusolver", "cublas"))
    theirs = solver and n <= _ROTATED and (m <= _ROTATED or blas)
    small, tau, square = a, None, given
    if blas and m > (_ROTATED if theirs else n):
        tau, square = _room(build, a, n), _room(build, a, n, n)
        factor_all(build, given, tau, a)
        small = a._replace(shape=(*a.shape[:-2], n, n))
        upper(build, given, a, square, n, by_columns=True)
    rows = small.shape[-2]
    wide = rows if u is None or tau or theirs else u.shape[-1]
    wanted = theirs or u is not None  # cuSOLVER works in U and V even where nobody wants them
    left, right = (_room(build, a, rows, wide), _room(build, a, n, n)) if wanted else (NULL, NULL)
    if theirs:
        decompose_all(build, small, (square, values, left, right, info), "svd", vectors=int(u is not None))
    else:
        _decompose(build, small, square, values, info, left, right, wide)
    if u is None:
        return
    if tau is None:
        take(build, u, left, strides=by_columns((*u.shape[:-1], wide)))
    else:
        take(build, u, product_of(build, a, given, tau, m, u.shape[-1], n, n, left))
    take(build, v, right, strides=row_major(v.shape), value="conjugate({})")


def _decompose(build, a, given, values, info, left, right, width):
    """By a block for each matrix (singular.cuh)."""
    kind, real, (m, n) = build.type(a), build.type(build.call.results[1]), a.shape[-2:]
    batch, wanted = batch_of(a), right is not NULL
    room, part = (_room(build, a, n, n), _room(build, a, m)) if wanted else (None, None)
    build.run("""  const int64_t at = blockIdx.x;
  decompose_svd(SingularValues<TYPE>{a + at * m * n, room ? room + at * n * n : room, u ? u + at * m * width : u,
                                  values + at * n, m, n, width},
                v ? v + at * n * n : v, lengths + at * n, order + at * n, part ? part + at * m : part, info + at);
""".replace("TYPE", kind), [
        *(Parameter(f"{kind}* {name}", getattr(p, "value", p) if p else NULL)
          for name, p in (("a", given), ("u", left), ("v", right), ("room", room), ("part", part))),
        Parameter(f"{real}* values", values.value), info,
        build.room("lengths", real, batch * n, build.size(a)), build.room("order", "int", batch * n, 4),
        *sizes(m=m, n=n, width=width)], batch, 512 if n > 32 else 256, ("singular.cuh",))


RULES = {"_linalg_svd": _svd}
