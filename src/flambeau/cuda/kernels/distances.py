"""Distances between rows of numbers, a thread for each pair."""

import math

from .launches import Build, number, numel, sizes

_TERMS = {0: ("A(v != A(0))", "sum + term", "sum"), 1: ("v", "sum + term", "sum"),
          2: ("v * v", "sum + term", "sqrt(sum)"), math.inf: ("v", "larger(sum, term)", "sum")}


def _body(wide, p, pair):
    """Statements that leave the distance of the rows x and y of one pair in out[i_]."""
    term, join, finish = _TERMS.get(p, ("pow(v, A(order))", "sum + term", "pow(sum, A(1) / A(order))"))
    return f"""  typedef {wide} A;
{pair}
  A sum = A(0);
  for (int64_t k = 0; k < width; ++k) {{
    const A v = fabs(a[k] - b[k]), term = {term};
    sum = {join};
  }}
  out[i_] = {finish};
"""


def _cdist(call):
    x, y, p, _ = call.args
    build, out = Build(call), call.results[0]
    pair = ("  const A *a = x + i_ / m * width, *b = y + (i_ / (m * n) * m + i_ % m) * width;")
    build.each(numel(out), _body(build.wide(x), p, pair),
               [build.input("x", x), build.input("y", y), build.output("out", out), number("double", "order", p),
                *sizes(n=x.shape[1], m=y.shape[1], width=x.shape[2])], index="int64_t")
    return build.plan()


#: the pair (row, column) with row < column that stands at place i_: found from the end, where rows are 1, 2, … long
_TRIANGLE = """  const int64_t back = n * (n - 1) / 2 - 1 - i_;
  int64_t up = int64_t((sqrt(8. * double(back) + 1.) - 1.) / 2.);
  while (up * (up + 1) / 2 > back) --up;
  while ((up + 1) * (up + 2) / 2 <= back) ++up;
  const int64_t row = n - 2 - up, column = n - 1 - (back - up * (up + 1) / 2);
  const A *a = x + row * width, *b = x + column * width;"""


def _pdist(call):
    x, p = call.args
    build, out = Build(call), call.results[0]
    build.each(numel(out), _body(build.wide(x), p, _TRIANGLE),
               [build.input("x", x), build.output("out", out), number("double", "order", p),
                *sizes(n=x.shape[0], width=x.shape[1])], index="int64_t")
    return build.plan()


RULES = {"_cdist": _cdist, "_pdist": _pdist}
