"""Elements by flat position, and rows of tables: take, put, embeddings, one_hot. See indexing.cuh."""

import math

from .launches import Build, begin_aligned, contiguous, index_type, nothing, numel, pointed_at, refuse, sizes, tensor
from .moves import accumulator
from .places import Index, Places, begin_with, read, walk_rows, write


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


def _rows_of(call, index, rows, step):
    """The places of whole rows of a table of so many rows, `step` elements apart."""
    lead = tuple(index.shape)
    width = call.args[0].shape[-1]
    pointer = tensor("index", index, call.name)
    return Places([*lead, width], [0] * len(lead) + [1], range(len(lead)),
                  [Index(pointer, (*index.strides, 0), rows, step)], False)


def _embedding(call):
    weight, index = call.args[:2]
    build, out = Build(call), call.results[0]
    if numel(out) == 0:
        return nothing()
    places = _rows_of(call, index, weight.shape[0], weight.strides[0])
    places.strides[-1] = weight.strides[1]
    read(build, places, weight, out, index_type(weight, out, index))
    return build.plan()


def _embedding_backward(call):
    """Rows of the gradient are added to their numbers' rows, atomically: the order of additions is not fixed."""
    grad, index, rows, padding, by_frequency = call.args
    build, out = Build(call), call.results[0]
    width, n = out.shape[1], numel(index)
    if numel(out) == 0:
        return nothing()
    sums, finish = accumulator(build, out)
    g, at = build.input("grad", grad), build.input("index", index)
    more, share, kind = [], "v", pointed_at(sums)
    if by_frequency:
        seen = build.room("seen", "int32_t", rows, 4)
        build.zeros(seen, rows * 4)
        build.each(n, "  const int64_t r = index[i_];\n  if (r >= 0 && r < rows) atomicAdd(seen + r, 1);\n",
                   [at, seen, *sizes(rows=rows)])
        more, share = [seen], f"v / {kind}(seen[r])"
    aligned = 16 if begin_aligned(grad) else 1
    pack = math.gcd(width, 16 // max(build.size(grad), 4), aligned, 16 if begin_aligned(out) else 1)
    if n * width:
        walk_rows(build, n, width // pack, pack, f"""  const int64_t r = index[walk.row];
  if (r < 0 || r >= rows || r == padding) return;
  const auto* from = grad + int64_t(walk.row) * width;
  auto* to = sums + r * width;
  Pack<{build.type(grad)}, V> given[4];
  walk.each([&](int k, Index pack) {{ given[k] = load<V>(from + pack * V); }}, [&](int k, Index pack) {{
    Pack<{kind}, V> own;
#pragma unroll
    for (int j = 0; j < V; ++j) {{
      const {kind} v = cast<{kind}>(given[k].v[j]);
      own.v[j] = {share};
    }}
    atomic_add_pack<V>(to + pack * V, own);
  }});
""", [g, at, sums, *more, *sizes(width=width, rows=rows, padding=padding)], index_type(out, numel=n * width))
    finish()
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
