"""Running sums, products, extrema along a dimension; the places of elements that are not 0. See scan.cuh."""

import math

from ...ops.dims import wrap_dim
from .launches import (
    Build,
    Parameter,
    begin_aligned,
    blocks,
    contiguous,
    layout,
    nothing,
    numel,
    row_major,
    sizes,
    tensor,
)
from .plans import Number

_FILES = ("scan.cuh",)
#: rows are cut until there are about as many chunks, or as many threads of columns
_CHUNKS, _THREADS = 1024, 2**16
#: columns with fewer neighbours are copied, so that rows lie side by side
_NEIGHBOURS = 16


def cut(n, least, wanted):
    """(width, chunks): n elements in about so many chunks, each a multiple of `least`."""
    tiles = math.ceil(n / least)
    width = math.ceil(tiles / min(tiles, max(1, wanted))) * least
    return width, math.ceil(n / width)


class Scan:
    """One scan: its operation in C++, what an accumulator takes in bytes, what is read and written, as parameters x,
    out and places (whose types are those that the text sees)."""

    def __init__(self, build, operation, size, given, index):
        self.build, self.operation, self.size, self.given = build, operation, size, given
        self.head = f"  typedef {index} Index;\n  typedef {operation} Op;\n"

    def _run(self, text, parameters, grid, threads):
        self.build.run(f"{self.head}  {text};\n", parameters, grid, threads, _FILES)

    def _befores(self, rows, chunks, total, parameters, grid):
        """What comes before each chunk; `total` is the text that finds the totals."""
        if chunks == 1:
            return Parameter(f"const typename {self.operation}::Acc* befores", Number(bytes(8)))
        totals = self.build.room("totals", f"typename {self.operation}::Acc", rows * chunks, self.size)
        self._run(total, [self.given[0], totals, *parameters], grid, 256)
        self._run("scan_totals<Op>(totals, Index(chunks))", [totals, *sizes(chunks=chunks)], rows, 256)
        return totals._replace(declaration=f"const typename {self.operation}::Acc* befores")

    def rows(self, rows, n, vector):
        """Rows side by side, read `vector` elements at once."""
        packs = max(1, (16 if self.size <= 8 else 8) // vector)
        piece = 32 * packs * vector
        alone, warps = n <= piece, 4
        if not alone:
            warps = min(8, 1 << math.ceil(math.log2(n / piece)))
        width, chunks = (n, 1) if alone else cut(n, warps * piece, _CHUNKS // rows)
        grid = blocks(rows, 4) if alone else rows * chunks
        more = sizes(rows=rows, n=n, width=width, chunks=chunks)
        befores = self._befores(rows, chunks, f"total_rows<Op, {vector}>(x, totals, Index(n), Index(width), "
                                              "Index(chunks))", more[1:], grid)
        flag = "true" if alone else "false"
        self._run(f"scan_rows<Op, {vector}, {packs}, {flag}>(x, out, places, befores, Index(rows), Index(n), "
                  "Index(width), Index(chunks))", [*self.given, befores, *more], grid, 32 * warps)

    def columns(self, rows, n, inner):
        """[outer, n, inner]"""
        width, chunks = cut(n, 32, _THREADS // rows)
        grid = blocks(rows * chunks, 256)
        more = sizes(n=n, inner=inner, rows=rows, width=width, chunks=chunks)
        names = "Index(n), Index(inner), Index(rows), Index(width), Index(chunks)"
        befores = self._befores(rows, chunks, f"total_columns<Op>(x, totals, {names})", more, grid)
        self._run(f"scan_columns<Op>(x, out, places, befores, {names})", [*self.given, befores, *more], grid, 256)


def _wide(build, operation, out):
    """What is computed in, and how many bytes an accumulator takes."""
    wide = build.wide(out)
    if wide in ("uint8_t", "int8_t", "int16_t", "bool") and operation in ("RunningSum", "RunningProduct"):
        wide = "int64_t"
    size = {"double": 8, "int64_t": 8, "uint64_t": 8, "complex64": 8, "complex128": 16}.get(wide, 4)
    if operation in ("RunningMax", "RunningMin"):
        return wide, 24 if size == 16 else 16
    return wide, 2 * size if operation == "RunningLogSum" and "complex" not in wide else size


def _vector(build, rows, n, infos):
    """How many elements are read at once."""
    if not all(info.aligned for info in infos):
        return 1
    wide = 16 // max(build.size(info) for info in infos)
    return wide if rows == 1 else math.gcd(wide, n)


def _scan(operation):
    def rule(call):
        x, dim, infos = call.args[0], call.args[1], [call.args[0], *call.results]
        if numel(x) == 0:
            return nothing()
        shape = list(x.shape) or [1]
        dim = wrap_dim(dim, len(shape), call.name)
        build, n, inner = Build(call), shape[dim], math.prod(shape[dim + 1:])
        rows = numel(x) // n
        columns = inner >= _NEIGHBOURS
        strides = row_major(shape if columns else [*shape[:dim], *shape[dim + 1:], n])
        if not columns:
            strides.insert(dim, strides.pop())
        given = [laid(build, name, info, strides[:len(info.shape)])
                 for name, info in zip(("x", "out", "places"), infos, strict=False)]
        if len(given) < 3:
            given.append(given[1]._replace(declaration=given[1].declaration.replace(" out", " places")))
        wide, size = _wide(build, operation, call.results[0])
        index = "int64_t" if numel(x) >= 2**30 else "int32_t"
        scan = Scan(build, f"{operation}<{build.type(x)}, {wide}>", size, given, index)
        if columns:
            scan.columns(rows, n, inner)
        else:
            scan.rows(rows, n, _vector(build, rows, n, infos))
        return build.plan()
    return rule


def laid(build, name, info, strides):
    """A pointer to the elements by strides that leave no gaps."""
    written = name != "x"
    if contiguous(info) if strides == row_major(info.shape) else list(info.strides) == strides:
        return tensor(name, info, build.call.name, written)
    return build.output_as(name, info, strides) if written else build.input_as(name, info, strides)


#: elements that a block looks at for those that are not 0
_PIECE = 4096


def true_elements(build, name, x, put, parameters):
    """Launches that call `put`, statements that know an element's place `at` in row-major order and its `number` among
    those that are not 0. Counts of pieces, what comes before each and the total behind them are `counts`, of int64,
    the first scratch memory that is asked for."""
    pieces, vector = blocks(numel(x), _PIECE), 16 // build.size(x) if begin_aligned(x) else 1
    counts = build.room("counts", "int64_t", pieces + 1, 8)
    given, n = build.input(name, x), sizes(n=numel(x))
    build.run(f"  count_piece<{vector}>({name}, n, counts);\n", [given, counts, *n], pieces, 256, _FILES)
    build.run("  scan_totals<RunningSum<int64_t, int64_t>>(counts, pieces, counts + pieces);\n",
              [counts, *sizes(pieces=pieces)], 1, 256, _FILES)
    build.run(f"  each_true<{vector}>({name}, n, counts, [&](int64_t number, int64_t at) {{\n{put}  }});\n",
              [given, counts, *n, *sizes(pieces=pieces), *parameters], pieces, 256, _FILES)


def _nonzero(call):
    """The last step writes the coordinates. It reads their number from the counts, and is the only one that writes the
    result: so flambeau.cuda._values can make room for it in between."""
    x, out = call.args[0], call.results[0]
    if numel(x) == 0 or not x.shape:
        return nothing()
    build, rank = Build(call), len(x.shape)
    along, across = (1, 0) if out.strides[0] == 1 else out.strides
    true_elements(build, "x", x, f"""    int64_t place[{rank}];
    unravel(at, shape, place);
    const int64_t step = across ? across : counts[pieces];
#pragma unroll
    for (int d = 0; d < {rank}; ++d) out[number * along + d * step] = place[d];
""", [tensor("out", out, call.name, True), layout("shape", x.shape, row_major(x.shape)),
      *sizes(along=along, across=across)])
    return build.plan()


RULES = {
    "nonzero_rows": _nonzero,
    "cumsum": _scan("RunningSum"), "cumprod": _scan("RunningProduct"), "cummax": _scan("RunningMax"),
    "cummin": _scan("RunningMin"), "logcumsumexp": _scan("RunningLogSum"),
}
