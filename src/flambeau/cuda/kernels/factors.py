"""LDL and the eigenvalues of any square matrix by cuSOLVER, matrix by matrix and by columns; LDL of whole batches, and
of complex Hermitian matrices, which it has not got, by kernels of our own."""

from .cusolver import SMALL, Infinite, batch_of, begin, check, columns, take, zero
from .launches import Build, Parameter, nothing, numel, sizes
from .libraries import NULL, present, run
from .products import expanded


def _call(build, way, operands, like, m=0, n=0, k=0, **more):
    told = {"left": 0, "transposed": 0, "vectors": 0, **more}
    run(build, "cusolver.factors", operands, way=way, m=m, n=n, k=k, batch=batch_of(like), dtype=like.dtype, **told)


def _numbers(build, like):
    return build.room("info", "int", batch_of(like), 4)


# --- LDL -------------------------------------------------------------------------------------------------------------

def _own(call, info, hermitian):
    """Whether a kernel of our own factors such matrices, all at once: the library takes one after the other."""
    several = batch_of(info) > 1 and info.shape[-1] <= SMALL
    return (hermitian and info.dtype.startswith("complex")) or several or not present(call, "cusolver")


def _form(build, info, hermitian):
    return f"{'Hermitian' if hermitian else 'Symmetric'}<{build.type(info)}>"


def _ldl(call):
    a, hermitian, check_errors = call.args
    out, pivots, info = call.results
    own = _own(call, a, hermitian)
    build = Build(call) if own else begin(call, "cusolver")
    if not numel(a):
        zero(build, info)
        return build.plan()
    given, failed = columns(build, a), build.output("info", info)
    if own:
        _factor(build, a, hermitian, given, build.output("pivots", pivots), failed)
    else:
        _call(build, "sytrf", (given, build.output("pivots", pivots), failed), a, n=a.shape[-1])
    take(build, out, given, "column <= row")
    if check_errors:
        check(build, failed, a, call.name)
    return build.plan()


def _factor(build, a, hermitian, given, pivots, info):
    """A block for each matrix."""
    kind, n = build.type(a), a.shape[-1]
    build.run(f"  factor_ldl<{_form(build, a, hermitian)}>(a + blockIdx.x * n * n, n, pivots + blockIdx.x * n,\n"
              "      info + blockIdx.x, room + blockIdx.x * 2 * n);\n",
              [Parameter(f"{kind}* a", given.value), pivots, info,
               build.room("room", kind, batch_of(a) * 2 * n, build.size(a)), *sizes(n=n)],
              batch_of(a), 256, ("ldl.cuh",))


def _ldl_solve(call):
    factors, pivots, b, hermitian = call.args
    out = call.results[0]
    own = _own(call, out, hermitian)
    build = Build(call) if own else begin(call, "cusolver")
    if not numel(out):
        return nothing()
    n, batch = out.shape[-2], out.shape[:-2]
    wide = expanded(factors, (*batch, n, n))
    each = build.packed("pivots", expanded(pivots, (*batch, n)))
    given = columns(build, expanded(b, out.shape))
    if own:
        _solve(build, wide, hermitian, columns(build, wide), each, given, out)
    else:
        order = build.room("order", "int64_t", batch_of(out) * n, 8)
        build.copy(order.value, each.value, batch_of(out) * n, "int64_t", build.type(pivots))
        _call(build, "sytrs", (columns(build, wide), order, given, _numbers(build, out)), out, n=n, k=out.shape[-1])
    take(build, out, given)
    return build.plan()


def _solve(build, factors, hermitian, given, pivots, b, out):
    """A warp for each column of B."""
    kind = build.type(factors)
    build.run(f"""  const int64_t matrix = blockIdx.x / width;
  const LdlColumn<{_form(build, factors, hermitian)}> column = {{a + matrix * n * n, b + blockIdx.x * n, n}};
  column.solve(pivots + matrix * n);
""", [Parameter(f"const {kind}* a", given.value), Parameter(f"{kind}* b", b.value), pivots,
      *sizes(n=out.shape[-2], width=out.shape[-1])], batch_of(out) * out.shape[-1], 32, ("ldl.cuh",))


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
    "linalg_ldl_factor_ex": _ldl, "_ldl_solve": _ldl_solve, "_linalg_eig": _eig,
}
