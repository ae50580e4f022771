"""Sorting and what follows from it: sort, topk, kthvalue, medians, searchsorted. See sort.cuh."""

import math

from ...ops.dims import wrap_dim
from .launches import Build, nothing, numel, sizes

_FILES = ("sort.cuh",)


class Sorted:
    """Rows of n items along a dimension (None: all elements), sorted in scratch memory: `items`, as [outer * inner][n].

    source: where the elements of x are, if not in a tensor."""

    def __init__(self, build, x, dim, descending, source=None):
        shape = list(x.shape) or [1] if dim is not None else [numel(x)]
        dim = wrap_dim(dim or 0, len(shape), build.call.name)
        self.build, self.n, self.inner = build, shape[dim], math.prod(shape[dim + 1:])
        self.rows = math.prod(shape) // max(self.n, 1)
        self.wide = build.wide(x)
        self.flag = "true" if descending else "false"
        size = 24 if self.wide == "complex128" else 16
        kind = f"Item<{self.wide}>"
        a = build.room("items", kind, self.rows * self.n, size)
        b = build.room("items", kind, self.rows * self.n, size)
        tiles = math.ceil(self.n / 256)
        build.run(f"  sort_tiles<{self.flag}, {self.wide}>(x, items, n, inner, tiles);\n",
                  [source or build.input("x", x), a, *sizes(n=self.n, inner=self.inner, tiles=tiles)],
                  self.rows * tiles, 256, _FILES)
        width = 256
        while width < self.n:
            build.each(self.rows * self.n, "  const int64_t row = i_ / n * n;\n"
                       f"  merge_item<{self.flag}>(from + row, items + row, i_ - row, n, width);\n",
                       [a._replace(declaration=f"const {kind}* from"), b, *sizes(n=self.n, width=width)],
                       index="int64_t", files=_FILES)
            a, b, width = b, a, width * 2
        self.items = a._replace(declaration=f"const {kind}* items")


def _taken(build, found, values, places, k, text="i_ / inner % k"):
    """The first k of every sorted row, back along the dimension."""
    build.each(numel(values), f"""  const int64_t place = {text}, row = i_ / (k * inner) * inner + i_ % inner;
  values[i_] = cast<{build.type(values)}>(items[row * n + place].key);
  places[i_] = items[row * n + place].place;
""", [found.items, build.output("values", values), build.output("places", places),
      *sizes(n=found.n, inner=found.inner, k=k)], index="int64_t", files=_FILES)
    return build.plan()


def _sort(call):
    x, dim, descending = call.args[:3]
    if numel(x) == 0:
        return nothing()
    build = Build(call)
    found = Sorted(build, x, dim, descending)
    return _taken(build, found, *call.results, found.n)


def _topk(call):
    x, k, dim, largest = call.args[:4]
    if numel(call.results[0]) == 0:
        return nothing()
    build = Build(call)
    return _taken(build, Sorted(build, x, dim, largest), *call.results, k)


def _kthvalue(call):
    x, k, dim = call.args[:3]
    if numel(call.results[0]) == 0:
        return nothing()
    build = Build(call)
    return _taken(build, Sorted(build, x, dim, False), *call.results, 1, str(k - 1))


def _median(ignores_nan):
    """The lower of the two in the middle; of a row with NaN the first NaN, unless these are ignored."""
    def rule(call):
        x, dim = call.args[0], call.args[1] if len(call.args) > 1 else None
        values = call.results[0]
        build = Build(call)
        if numel(values) == 0:
            return nothing()
        if numel(x) == 0:  # of nothing it is NaN, of no whole numbers 0
            nothing_there = "0" if "int" in values.dtype else "not_a_number<float>()"
            build.each(numel(values), f"  out[i_] = cast<{build.type(values)}>({nothing_there});\n",
                       [build.output("out", values)])
            return build.plan()
        found = Sorted(build, x, dim, False)
        second = [build.output("places", call.results[1])] if len(call.results) > 1 else []
        pick = "(numbers - 1) / 2" if ignores_nan else "numbers < n ? numbers : (n - 1) / 2"
        build.each(numel(values), f"""  const Item<{found.wide}>* row = items + i_ * n;
  int64_t numbers = 0, end = n;
  while (numbers < end) {{
    const int64_t middle = (numbers + end) / 2;
    if (is_nan(row[middle].key)) end = middle;
    else numbers = middle + 1;
  }}
  const int64_t place = numbers == 0 ? 0 : {pick};
  values[i_] = cast<{build.type(values)}>(row[place].key);
  {'places[i_] = row[place].place;' if second else ''}
""", [found.items, build.output("values", values), *second, *sizes(n=found.n)], index="int64_t", files=_FILES)
        return build.plan()
    return rule


def _mode(call):
    """The smallest of the most frequent elements, at its last place: a block for each row looks where runs end."""
    x, dim = call.args[:2]
    values, places = call.results
    if numel(values) == 0:
        return nothing()
    build = Build(call)
    found = Sorted(build, x, dim, False)
    build.run(f"""  typedef {found.wide} A;
  typedef Lanes<ArgMax<int64_t, int64_t>> Op;
  __shared__ Op::Acc room[32];
  const Item<A>* row = items + blockIdx.x * n;
  const Op op;
  Op::Acc acc = op.init();
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
    if (i == 0 || comes_before<A, false>(row[i - 1].key, row[i].key))
      acc = op.add(acc, count_before<false>(row, i, n, row[i].key, true), i);
  acc = combine_block(op, acc, room);
  if (threadIdx.x != 0) return;
  const Item<A> best = row[acc.place + acc.value - 1];
  values[blockIdx.x] = cast<{build.type(values)}>(best.key);
  places[blockIdx.x] = best.place;
""", [found.items, build.output("values", values), build.output("places", places), *sizes(n=found.n)],
              found.rows, 128, ("reduce.cuh", *_FILES))
    return build.plan()


def _searchsorted(call):
    """Each value's place in its row of the sequence; one row serves all."""
    sequence, values, _, right = call.args
    build, out = Build(call), call.results[0]
    n = sequence.shape[-1]
    many = values.shape[-1] if len(sequence.shape) > 1 else numel(values)
    wide = build.wide(sequence)
    build.each(numel(out), f"""  typedef {wide} A;
  const auto row = sequence + i_ / many * n;
  const A v = cast<A>(values[i_]);
  int64_t begin = 0, end = n;
  while (begin < end) {{
    const int64_t middle = (begin + end) / 2;
    const A s = cast<A>(row[middle]);
    if ({'!comes_before<A, false>(v, s)' if right else 'comes_before<A, false>(s, v)'}) begin = middle + 1;
    else end = middle;
  }}
  out[i_] = cast<{build.type(out)}>(begin);
""", [build.input("sequence", sequence), build.input("values", values), build.output("out", out),
      *sizes(n=n, many=max(many, 1))], index="int64_t", files=_FILES)
    return build.plan()


RULES = {
    "sort": _sort, "topk": _topk, "kthvalue": _kthvalue, "median.dim": _median(False), "median.all": _median(False),
    "nanmedian.dim": _median(True), "nanmedian.all": _median(True), "_searchsorted": _searchsorted,
    "mode": _mode,
}
