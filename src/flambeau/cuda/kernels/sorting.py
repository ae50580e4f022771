"""Sorting and what follows from it: sort, topk, kthvalue, medians, searchsorted. See sort.cuh."""

import math

from ...ops.dims import wrap_dim
from .launches import Build, begin_aligned, blocks, flag, nothing, number, numel, row_major, sizes
from .scans import Scan, laid

_FILES = ("sort.cuh",)


#: rows up to there are sorted by one block, in (threads, elements of each) that suffice; the first by comparing
_WARP, _BLOCKS = 32, ((32, 4), (128, 4), (128, 16), (256, 16))
#: elements of a tile of a longer row
_TILE = 4096
#: one block finds elements of a row of more than LEAST elements, up to FIRST of them, up to LONG ones; of longer ones
#: too where there are MANY rows
_LEAST, _FIRST, _LONG, _MANY = 512, 1024, 2**16, 64


class Order:
    """Rows of n elements along a dimension (None: all elements) in order. Rows lie side by side: `row` counts
    [outer, inner], and results are written so (`results`).

    source: where the elements of x are, as a parameter x, if not in a tensor. lowest: the first digit of long rows.
    """

    def __init__(self, build, x, dim, descending, source=None, lowest=0):
        shape = list(x.shape) or [1] if dim is not None else [numel(x)]
        self.dim = wrap_dim(dim or 0, len(shape), build.call.name)
        self.build, self.n = build, shape[self.dim]
        self.rows = math.prod(shape) // max(self.n, 1)
        self.kind, self.lowest = build.type(x), lowest
        self.x = source or (build.input("x", x) if dim is None else laid(build, "x", x, self._strides(x)))
        self.index = "int64_t" if numel(x) >= 2**30 else "int32_t"
        self.place, self.place_size = ("int64_t", 8) if self.n >= 2**31 else ("int32_t", 4)
        self.aligned = source is None and begin_aligned(x)
        eighth = x.dtype.startswith("float8")
        self.size = 4 if eighth else build.size(x)
        self.vector = math.gcd(16 // build.size(x), self.n if self.rows > 1 else 16) if self.aligned else 1
        self.flag = flag(descending)
        self.key = f"Ordered<{self.kind}>::U"

    def _strides(self, info):
        if not info.shape:
            return []
        strides = row_major([*info.shape[:self.dim], *info.shape[self.dim + 1:], info.shape[self.dim]])
        strides.insert(self.dim, strides.pop())
        return strides

    def results(self, values, places):
        return [laid(self.build, "values", values, self._strides(values)),
                laid(self.build, "places", places, self._strides(places))]

    def _run(self, text, parameters, grid, threads):
        self.build.run(f"  typedef {self.kind} T;\n  typedef {self.index} Index;\n  typedef {self.place} Place;\n"
                       f"  typedef {self.key} Key;\n{text}", [*parameters, *sizes(n=self.n)], grid, threads, _FILES)

    def put(self, text, parameters):
        """`text` for every element in order: its `row`, number `i` there, `value`, and the `place` where it was."""
        put = f"""  const auto put = [&](Index row, Index i, Key key, Place place) {{
    const T value = element<T, {self.flag}>(key, x + row * n, place);
{text}  }};
"""
        if self.n > _TILE:
            return self._long(put, parameters)
        if self.n <= _WARP:
            self._run(f"{put}  sort_warp<T, {self.flag}>(x, Index(rows), Index(n), put);\n",
                      [self.x, *parameters, *sizes(rows=self.rows)], blocks(self.rows, 4), 128)
            return None
        threads, each = next(pair for pair in _BLOCKS if self.n <= math.prod(pair))
        self._run(f"{put}  sort_block<T, {self.flag}, {each}, {threads // 32}>(x, Index(n), put);\n",
                  [self.x, *parameters], self.rows, threads)
        return None

    def _long(self, put, parameters):
        build, rows, tiles = self.build, self.rows, math.ceil(self.n / _TILE)
        digits, grid, many = self.size - self.lowest, rows * tiles, rows * self.n
        names = ("even", "odd")
        keys = [build.room(f"{name}_keys", f"typename {self.key}", many, self.size) for name in names]
        places = [build.room(f"{name}_places", self.place, many, self.place_size) for name in names]
        totals = build.room("totals", self.place, rows * digits * 256, self.place_size)
        used = build.room("used", "int32_t", rows * digits, 4)
        counts = build.room("counts", self.place, rows * 256 * tiles, self.place_size)
        scan = Scan(build, f"RunningSum<{self.place}, {self.place}>", self.place_size,
                    [counts._replace(declaration=f"const {self.place}* x"),
                     *(counts._replace(declaration=f"{self.place}* {name}") for name in ("out", "places"))], self.index)
        moving = "  const Moving<Key> keys{even_keys, odd_keys};\n"
        both = f"{moving}  const Moving<Place> places_{{even_places, odd_places}};\n"
        build.zeros(totals, rows * digits * 256 * self.place_size)
        self._run(f"  begin_sort<T, {self.flag}, {self.lowest}>(x, even_keys, totals, Index(n), Index(tiles));\n",
                  [self.x, keys[0], totals, *sizes(tiles=tiles)], grid, 256)
        self._run("  begins_of_digits(totals, used, n);\n", [totals, used], rows * digits, 256)
        more = [used, *sizes(tiles=tiles)]
        for digit in range(digits):
            here = number("int32_t", "digit", digit)
            self._run(f"{moving}  count_digits<{self.lowest}>(keys, counts, used, Index(n), Index(tiles), digit);\n",
                      [*keys, counts, *more, here], grid, 256)
            scan.rows(rows * 256, tiles, math.gcd(4, tiles) if self.place_size == 4 else 1)
            self._run(f"{both}  move_digits<{self.lowest}>(keys, places_, counts, totals, used, Index(n), "
                      "Index(tiles), digit);\n", [*keys, *places, counts, totals, *more, here], grid, 256)
        self._run(f"{both}{put}  each_sorted<{self.lowest}>(keys, places_, used, Index(n), Index(tiles), put);\n",
                  [self.x, *keys, *places, *more, *parameters], grid, 256)

    def by_one_block(self):
        """Whether a block for each row finds an element faster than all are sorted."""
        return _LEAST < self.n < 2**31 and (self.n <= _LONG or self.rows >= _MANY)

    def find(self, text, parameters):
        """A block for each row, which knows its `keys`."""
        packs = 16 // self.vector if self.n <= _TILE else 0
        self._run(f"""  const Index row = blockIdx.x;
  x += row * n;
  Keys<T, {self.flag}, {self.vector}, {packs}> keys(x, int(n));
{text}""", [self.x, *parameters], self.rows, 256)


class Sorted:
    """The same as `items` in scratch memory, [outer * inner][n], in the type that is computed in."""

    def __init__(self, build, x, dim, descending, order=None):
        order = order or Order(build, x, dim, descending)
        self.n, self.rows, self.wide = order.n, order.rows, build.wide(x)
        kind = f"Item<{self.wide}>"
        items = build.room("items", kind, self.rows * self.n, 16)
        order.put(f"    items[row * n + i] = {{cast<{self.wide}>(value), int64_t(place)}};\n", [items])
        self.items = items._replace(declaration=f"const {kind}* items")


def _sort(call):
    x, dim, descending = call.args[:3]
    if numel(x) == 0:
        return nothing()
    build = Build(call)
    order = Order(build, x, dim, descending)
    order.put("    values[row * n + i] = value;\n    places[row * n + i] = place;\n", order.results(*call.results))
    return build.plan()


def _topk(call):
    x, k, dim, largest = call.args[:4]
    if numel(call.results[0]) == 0:
        return nothing()
    build = Build(call)
    order = Order(build, x, dim, largest)
    given = [*order.results(*call.results), *sizes(k=k)]
    if k <= _FIRST and order.by_one_block():
        order.find(f"""  first_elements<{_FIRST}>(keys, int(k), [&](int i, Key key, int place) {{
    values[row * k + i] = element<T, {order.flag}>(key, x, place);
    places[row * k + i] = place;
  }});
""", given)
    else:
        order.put("""    if (i >= k) return;
    values[row * k + i] = value;
    places[row * k + i] = place;
""", given)
    return build.plan()


def _kthvalue(call):
    x, k, dim = call.args[:3]
    values, places = call.results
    if numel(values) == 0:
        return nothing()
    build = Build(call)
    order = Order(build, x, dim, False)
    given = [build.output("values", values), build.output("places", places), *sizes(k=k - 1)]
    if order.by_one_block():
        order.find(_ELEMENT.format("int32_t(k)") + _BOTH, given)
    else:
        order.put("    if (i != k) return;\n    values[row] = value;\n    places[row] = place;\n", given)
    return build.plan()


_ELEMENT = """  __shared__ Counted room;
  const auto found = find_element<true>(keys, {}, room);
  if (threadIdx.x != 0) return;
  values[row] = x[found.last];
"""
_BOTH = "  places[row] = found.last;\n"


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
        second = [build.output("places", call.results[1])] if len(call.results) > 1 else []
        given = [build.output("values", values), *second]
        order = Order(build, x, dim, False)
        if order.by_one_block():
            pick = "numbers ? (numbers - 1) / 2 : 0" if ignores_nan else "numbers < n ? numbers : (n - 1) / 2"
            order.find("  const int32_t numbers = int32_t(n) - count_odd<T>(keys);\n"
                       + _ELEMENT.format(f"int32_t({pick})") + (_BOTH if second else ""), given)
            return build.plan()
        found = Sorted(build, x, dim, False, order)
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
""", [found.items, *given, *sizes(n=found.n)], index="int64_t", files=_FILES)
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
