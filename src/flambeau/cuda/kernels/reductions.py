"""Reductions: which operation, which way through memory, how many chunks. See reduce.cuh."""

import math

from ...ops.dims import wrap_dims
from .launches import Parameter, blocks, collapse, index_type, launch, layout, nothing, number, power_of_two, tensor
from .plans import Number, Plan, Scratch
from .pointwise import type_of

#: bytes of an accumulator, by the operation; where absent it is the accumulated type alone
_PARTS = {"ArgMax": 2, "ArgMin": 2, "MaxDim": 2, "MinDim": 2, "Variance": 4, "Deviation": 4, "VarianceMean": 4,
          "DeviationMean": 4, "LogSumExp": 2, "MinMax": 2}
#: fewest elements of a chunk, of rows and of columns, and how many blocks there should be
_CHUNK, _COLUMN_CHUNK, _BLOCKS = 4096, 256, 1024
#: the rows of a warp: up to so many bytes, where there are so many of them
_LINE, _LINES = 16384, 4096


def _dims(call, ndim):
    """The reduced dimensions, from whichever argument says so."""
    given = next((a for a in call.args[1:] if not isinstance(a, (bool, str))), None)
    if call.name == "_vector_norm":
        given = call.args[2]
    if given is None or given == [] or given == ():
        return [] if given is not None and call.name in ("any", "all") else list(range(ndim))
    return sorted(wrap_dims([given] if isinstance(given, int) else given, ndim, call.name)) if ndim else []


class Reduction:
    """One reduction of x over `dims` into results, as launches."""

    def __init__(self, call, operation, accumulated, x, dims, results, state=""):
        self.call, self.x, self.results = call, x, results
        self.element = type_of(x.dtype, call.name)
        self.operation = f"{operation}<{self.element[0]}, {accumulated}>"
        kept = [d for d in range(len(x.shape)) if d not in dims]
        outs = [_strides_of(r, len(x.shape), kept) for r in results]
        sizes = [x.shape[d] for d in kept]
        self.kept = collapse(sizes, [x.strides[d] for d in kept], *outs)
        self.reduced = collapse([x.shape[d] for d in dims], [x.strides[d] for d in dims])
        self.rows, self.n = math.prod(sizes), math.prod(x.shape[d] for d in dims)
        self.index, self.state = index_type(x, *results, numel=self.n), state
        width = 16 if accumulated == "complex128" else 8
        self.bytes = width * _PARTS.get(operation, 1)
        self.partial = Number(bytes(8))  # no address: one chunk has all

    def _by_rows(self):
        """Whether neighbours in memory belong to one result."""
        inner = [abs(s) for s in self.reduced[1]] or [1]
        return min(inner) <= min([abs(s) for s in self.kept[1]] or [2**62])

    def _vector(self):
        """Elements of a row read at once: whole vectors, where every row begins at a multiple of 16 bytes."""
        v = 16 // self.element[2]
        flat = self.reduced[1] == [1] and self.x.aligned and all(s % v == 0 for s in self.kept[1])
        return v if flat and self.n >= v else 1

    def _columns(self):
        """Columns of a thread: vectors, where they begin at multiples of 16 bytes and 16 KB hold a block's numbers."""
        v = min(16 // self.element[2], max(1, 64 // self.bytes))
        flat = self.kept[1][-1:] == [1] and self.x.aligned and all(s % v == 0 for s in [*self.kept[1][:-1],
                                                                                       *self.reduced[1]])
        return v if flat and self.kept[0][-1] % v == 0 else 1

    def plan(self):
        if self.rows == 0:
            return nothing()
        if self._by_rows():
            vector = self._vector()
            lanes = min(32, power_of_two(self.n / vector))
            if self.n * self.element[2] <= _LINE and (self.rows >= _LINES or lanes < 32):
                return Plan((self._lines(vector, lanes),))
            threads = 256 if self.n > 8192 else 128 if self.n > 256 else 32
            return self._chunks("rows", vector, self.rows, threads, _CHUNK)
        vector = self._columns()
        return self._chunks("columns", vector, blocks(self.rows, 32 * vector), 256, _COLUMN_CHUNK)

    def _lines(self, vector, lanes):
        return self._launch(f"reduce_lines<{vector}, {lanes}>(op, x, out, kept, reduced, Index(rows), Index(n));",
                            self._read(), blocks(self.rows, 256 // lanes), 256)

    def _chunks(self, way, vector, across, threads, least):
        """A launch for all chunks, and one that joins what they give where there are more than one of them."""
        chunks = max(1, min(math.ceil(self.n / least), _BLOCKS // across)) if across < _BLOCKS else 1
        width = math.ceil(math.ceil(self.n / chunks) / 16) * 16
        chunks = max(1, math.ceil(self.n / width)) if width else 1
        self.partial = Scratch(0) if chunks > 1 else self.partial
        statement = f"reduce_{way}<{vector}>(op, x, out, partial, kept, reduced, Index(rows), Index(n), Index(width));"
        steps = [self._launch(statement, [*self._read(), number("int64_t", "width", width)], (across, chunks), threads)]
        if chunks > 1:
            steps.append(self._launch("reduce_chunks(op, out, partial, Index(rows), Index(n), chunks);",
                                      [number("int32_t", "chunks", chunks)], blocks(self.rows, 8), 256))
        return Plan(tuple(steps), (self.rows * chunks * self.bytes,) if chunks > 1 else ())

    def _read(self):
        return [tensor("x", self.x, self.call.name), layout("kept", *self.kept[:2]), layout("reduced", *self.reduced)]

    def _launch(self, statement, more, grid, threads):
        first, second = self.results[0], self.results[-1]
        outs = [tensor("first", first, self.call.name, True), tensor("second", second, self.call.name, True)]
        types = ", ".join(type_of(r.dtype, self.call.name)[0] for r in (first, second))
        rank = max(len(self.kept[0]), 1)
        body = (f"  typedef {self.index} Index;\n  typedef Lanes<{self.operation}> Op;\n  Op op;\n{self.state}"
                f"  typename Op::Acc* partial = reinterpret_cast<typename Op::Acc*>(scratch);\n"
                f"  const Results<{types}, {rank}> out{{first, second, to, to_second}};\n  {statement}\n")
        parameters = [*outs, layout("to", self.kept[0], self.kept[2]),
                      layout("to_second", self.kept[0], self.kept[-1]), Parameter("char* scratch", self.partial),
                      number("int64_t", "rows", self.rows), number("int64_t", "n", self.n), *more]
        return launch(self.call, body, parameters, grid, threads, ("reduce.cuh",))


def _strides_of(result, ndim, kept):
    """The result's strides for the kept dimensions, whether or not it keeps the reduced ones with size 1."""
    if len(result.shape) == ndim:
        return [result.strides[d] for d in kept]
    return list(result.strides)


def _wide(dtype, op):
    return "int64_t" if dtype in _WHOLE else type_of(dtype, op)[1]


_WHOLE = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _reduce(operation, accumulated=None, state=""):
    """A rule: `accumulated` takes (call, x, result) to the type that is added up, the result's by default."""
    def rule(call):
        x, results = call.args[0], call.results
        of = accumulated(call, x, results[0]) if accumulated else _wide(results[0].dtype, call.name)
        text = state(call) if state else ""
        return Reduction(call, operation, of, x, _dims(call, len(x.shape)), results, text).plan()
    return rule


def _own(call, x, result):
    return type_of(x.dtype, call.name)[1]


def _computed(call, _, result):
    return type_of(result.dtype, call.name)[1]


def _correction(call):
    value = call.args[2]
    return f"  op.correction = {1.0 if value is None else float(value)!r};\n"


def norm_order(order):
    """The statement that tells a Norm `op` its order."""
    literal = {math.inf: "1e300 * 1e300", -math.inf: "-1e300 * 1e300"}.get(order, repr(order))
    return f"  op.order = {literal};\n"


def _order(call):
    return norm_order(float(call.args[1]))


RULES = {
    "sum": _reduce("Sum"), "mean": _reduce("Mean"), "nansum": _reduce("NanSum"), "prod": _reduce("Prod"),
    "any": _reduce("Any", _own), "all": _reduce("All", _own), "amax": _reduce("Max", _own),
    "amin": _reduce("Min", _own), "max.all": _reduce("Max", _own), "min.all": _reduce("Min", _own),
    "aminmax": _reduce("MinMax", _own), "max.dim": _reduce("MaxDim", _own), "min.dim": _reduce("MinDim", _own),
    "argmax": _reduce("ArgMax", _own), "argmin": _reduce("ArgMin", _own), "logsumexp": _reduce("LogSumExp", _computed),
    "var.correction": _reduce("Variance", _computed, _correction),
    "std.correction": _reduce("Deviation", _computed, _correction),
    "var_mean.correction": _reduce("VarianceMean", _computed, _correction),
    "std_mean.correction": _reduce("DeviationMean", _computed, _correction),
    "_vector_norm": _reduce("Norm", _computed, _order),
}
