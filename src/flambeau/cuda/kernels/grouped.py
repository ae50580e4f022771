"""Products of groups by cuBLAS, which has their sizes read by the CPU; else by a kernel of our own (products.py)."""

from ...backends import _switches
from . import cublaslt
from .launches import Build, numel, row_major
from .libraries import present, run
from .plans import Pointer
from .products import groups_of

_TYPES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


def _lying(build, info):
    """(where, the info, step, whether by rows): the matrices themselves, or a copy where cuBLAS cannot be told how they
    lie."""
    step = cublaslt.step_of(info.shape[-2:], info.strides[-2:])
    if step is not None:
        return (Pointer(info.k), info, *step)
    return (build.packed("a", info).value, info._replace(strides=tuple(row_major(info.shape))), info.shape[-1], True)


def _grouped_mm(call):
    a, b, offs = call.args[:3]
    out = call.results[0]
    if offs is None:
        return cublaslt.matmul(call)
    if not present(call, "cublas") or a.dtype not in _TYPES or 0 in (numel(out), a.shape[-1], offs.shape[0]):
        return None
    build, size = Build(call), _TYPES[a.dtype]
    place = build.output("c", out)
    build.zeros(place, numel(out) * size)
    (at_a, a, step_a, a_by_rows), (at_b, b, step_b, b_by_rows) = _lying(build, a), _lying(build, b)
    groups = groups_of(a, b, out, offs)

    def side(transposed, step, part):
        return (int(transposed), step, *(size * n for n in part))
    run(build, "cublas.grouped", (at_b, at_a, place, build.input("offs", offs),  # cuBLAS multiplies the transposes
                                  build.room("places", "int64_t", 3 * groups.count, 8)),
        a=side(not b_by_rows, step_b, groups.b), b=side(not a_by_rows, step_a, groups.a),
        c=side(False, out.shape[-1], groups.c), m=groups.n, n=groups.m, k=groups.depth, groups=groups.count,
        length=groups.length, dtype=a.dtype, tf32=a.dtype == "float32" and _switches.get("matmul_tf32"))
    return build.plan()


RULES = {"_grouped_mm": _grouped_mm}
