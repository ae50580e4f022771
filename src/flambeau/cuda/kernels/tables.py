"""Elements by flat position, and rows of tables: take, put, embeddings, one_hot. See indexing.cuh."""

from .launches import Build, contiguous, index_type, nothing, numel, refuse, sizes
from .places import Index, Places, begin_with, write

_FILES = ("indexing.cuh",)


def _take(call):
    x, index = call.args
    build, out = Build(call), call.results[0]
    build.each(numel(out), f"""  const int64_t found = index[i_], own = found + (found < 0 ? size : 0);
  out[i_] = own >= 0 && own < size ? x[own] : {build.type(x)}();
""", [build.input("x", x), build.input("index", index), build.output("out", out), *sizes(size=numel(x))])
    return build.plan()


def _put(call):
    x, index, source, accumulate = call.args
    build, out = Build(call), call.results[0]
    begin_with(build, out, x)
    flat = out._replace(shape=(numel(out),), strides=(1,))
    if numel(index) == 0:
        return build.plan()
    if not contiguous(out):
        refuse(call, "for results that are not contiguous")
    pointer = build.input("index", index)
    places = Places([numel(index)], [0], [0], [Index(pointer, (1,), numel(out), 1)], True)
    beside, at = places.other("source", [1])
    given = [build.input("source", source), *beside], f"source[{at}]"
    write(build, places, flat, "a" if accumulate else "r", given, index_type(out, numel=numel(index)))
    return build.plan()


def _embedding(call):
    weight, index = call.args[:2]
    build, out = Build(call), call.results[0]
    width = weight.shape[1]
    build.each(numel(out), f"""  const Index row = i_ / Index(width), column = i_ - row * Index(width);
  const int64_t r = index[row];
  out[i_] = r >= 0 && r < rows ? weight[r * width + column] : {build.type(weight)}();
""", [build.input("weight", weight), build.input("index", index), build.output("out", out),
      *sizes(width=width, rows=weight.shape[0])])
    return build.plan()


def _embedding_backward(call):
    """Rows of the gradient are added to their numbers' rows, atomically: the order of additions is not fixed."""
    grad, index, rows, padding, by_frequency = call.args
    build, out = Build(call), call.results[0]
    width, n = out.shape[1], numel(index)
    if numel(out) == 0:
        return nothing()
    kind = build.type(out)
    wide, size = (build.wide(out), 8 if kind in ("double", "int64_t", "complex64") else 4)
    narrow = kind in ("float16", "bfloat16")
    target = build.room("sums", wide, numel(out), size) if narrow else build.output("sums", out)
    build.zeros(target, numel(out) * (size if narrow else build.size(out)))
    g, at = build.input("grad", grad), build.input("index", index)
    more, share = [], "v"
    if by_frequency:
        seen = build.room("seen", "int32_t", rows, 4)
        build.zeros(seen, rows * 4)
        build.each(n, "  const int64_t r = index[i_];\n  if (r >= 0 && r < rows) atomicAdd(seen + r, 1);\n",
                   [at, seen, *sizes(rows=rows)])
        more, share = [seen], f"v / {wide}(seen[r])"
    build.each(n * width, f"""  const Index row = i_ / Index(width), column = i_ - row * Index(width);
  const int64_t r = index[row];
  if (r < 0 || r >= rows || r == padding) return;
  const {wide if narrow else kind} v = cast<{wide if narrow else kind}>(grad[i_]);
  atomic_add(sums + r * width + column, {share});
""", [g, at, target, *more, *sizes(width=width, rows=rows, padding=padding)], files=_FILES)
    if narrow:
        build.each(numel(out), f"  out[i_] = cast<{kind}>(sums[i_]);\n", [build.output("out", out), target])
    return build.plan()


def _one_hot(call):
    index, out = call.args[0], call.results[0]
    build = Build(call)
    build.each(numel(out), "  out[i_] = index[i_ / Index(classes)] == int64_t(i_ % Index(classes));\n",
               [build.input("index", index), build.output("out", out), *sizes(classes=out.shape[-1])])
    return build.plan()


RULES = {
    "take": _take, "put": _put, "embedding_rows": _embedding, "embedding_dense_backward": _embedding_backward,
    "one_hot": _one_hot,
}
