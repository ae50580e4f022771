"""Singular values by cuSOLVER: matrix by matrix, and batches of matrices with few columns by Jacobi's rotations.

cuSOLVER's approximate function for tall matrices is not used: it works on A^H A, which loses singular values below the
root of the rounding error. Tall matrices are reduced to R by reflections instead, which loses nothing.
"""

from .cusolver import Infinite, batch_of, begin, by_columns, check, columns, decompose, decompose_all, take, unit
from .launches import numel, row_major
from .libraries import NULL, present
from .reflections import factor_all, product_of, upper

#: the most rows and columns of matrices that are rotated, as cuSOLVER documents
_ROTATED = 32


def _transposed(info):
    return info._replace(shape=(*info.shape[:-2], info.shape[-1], info.shape[-2]),
                         strides=(*info.strides[:-2], info.strides[-1], info.strides[-2]))


def _svd(call):
    a, full, vectors = call.args
    u, s, v = call.results
    build = begin(call, "cusolver")
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
    rotated = batch_of(a) > 1 and a.shape[-1] <= _ROTATED and (a.shape[-2] <= _ROTATED or present(call, "cublas"))
    found = (u, v) if vectors else (None, None)
    if rotated:
        _rotate(build, a, given, values, info, *found)
    else:
        _one_by_one(build, a, given, values, info, *found, full)
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
    m, n = a.shape[-2:]
    small, tau, square = a, None, given
    if m > _ROTATED:
        tau, square = _room(build, a, n), _room(build, a, n, n)
        factor_all(build, given, tau, a)
        small = a._replace(shape=(*a.shape[:-2], n, n))
        upper(build, given, a, square, n, by_columns=True)
    left, right = (NULL, NULL) if u is None else (_room(build, a, small.shape[-2], small.shape[-2]),
                                                  _room(build, a, n, n))
    decompose_all(build, small, (square, values, left, right, info), "svd", vectors=int(u is not None))
    if u is None:
        return
    if tau is None:
        take(build, u, left, strides=by_columns((*u.shape[:-1], m)))
    else:
        take(build, u, product_of(build, a, given, tau, m, u.shape[-1], n, n, left))
    take(build, v, right, strides=row_major(v.shape), value="conjugate({})")


RULES = {"_linalg_svd": _svd}
