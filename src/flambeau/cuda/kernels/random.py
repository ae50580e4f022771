"""Random numbers: Philox, one stream per thread, so that numbers depend on seed and size alone.

The division into threads is that of PyTorch on a GPU of 132 multiprocessors (H100, H200): `rand`, `randn` and their
kin give its numbers there for the same seed, and dropout of float32 and halves keeps what it keeps; randperm and
multinomial draw by ways of our own.
"""

import math

from .launches import Build, Parameter, begin_aligned, nothing, number, numel, refuse, sizes
from .plans import Seed
from .sorting import Order

_FILES = ("random.cuh",)
#: complex numbers are drawn as twice as many of their parts
_PARTS = {"complex32": "float16", "complex64": "float", "complex128": "double"}
_THREADS, _BLOCKS = 256, 132 * 8


def _draw(build, n, many, body, parameters, each=1):
    """A launch in which `body` gets four words `w` for elements i, i + width, … (`many` of them), or, where `each` is
    not 1, for as many elements from i on, which are `own` of the parameter x."""
    if (dtype := build.call.results[0].dtype).startswith("float8"):  # as on the CPU
        refuse(build.call, f"for dtype {dtype}")
    if n == 0:
        return
    grid = min(math.ceil(n / _THREADS), _BLOCKS)
    calls = (n - 1) // (_THREADS * grid * 4) + 1
    text = f"  draw_elements<{many}>(from, n, [&](Four w, int64_t i, int64_t width) {{\n{body}  }});\n" if each == 1 \
        else f"  draw_packs<{each}>(from, x, n, [&](Four w, const auto& own, int64_t i) {{\n{body}  }});\n"
    seed = Parameter("const Given given_", Seed(calls * 4 * (4 // many)))
    build.run(text, [seed, *sizes(n=n), *parameters], grid, _THREADS, _FILES)


def _numbers(call, out, value, parameters=(), normal=False, more=""):
    """Every element by `value`, an expression of the drawn number `u` (float, or double for float64)."""
    build = Build(call)
    wide, n = "double" if out.dtype in ("float64", "complex128") else "float", numel(out)
    kind, target = build.type(out), build.output("out", out)
    if kind in _PARTS:
        kind, n = _PARTS[kind], 2 * n
        target = Parameter(f"{kind}* out", target.value)
    many, draw = (2, "two") if wide == "double" else (4, "four<float>")
    body = f"""    {wide} u_[{many}];
    {'normal' if normal else 'uniform'}_{draw}(w, u_);
    for (int k = 0; k < {many}; ++k) {{
      const int64_t at = i + k * width;
      const {wide} u = u_[k];
      {more}
      if (at < n) out[at] = cast<{kind}>({value});
    }}
"""
    _draw(build, n, many, body, [target, *parameters])
    return build.plan()


def _wide(out):
    return "double" if out.dtype in ("float64", "complex128") else "float"


def _share(out, std):
    """The deviation of each number that is drawn: a complex number's two parts share the variance."""
    return std * math.sqrt(0.5) if out.dtype.startswith("complex") else std


def _rand(call):
    out = call.results[0]
    wide = _wide(out)
    return _numbers(call, out, f"u == {wide}(1) ? {wide}(0) : u")


def _uniform(call):
    _, low, high = call.args[:3]
    out = call.results[0]
    wide = _wide(out)
    return _numbers(call, out, f"v == {wide}(high) ? {wide}(low) : v",
                    [number("double", "low", low), number("double", "high", high)],
                    more=f"const {wide} v = u * ({wide}(high) - {wide}(low)) + {wide}(low);")


def _normal(call, mean=0.0, std=1.0):
    out = call.results[0]
    wide, std = _wide(out), _share(out, std)
    return _numbers(call, out, f"u * {wide}(std) + {wide}(mean)",
                    [number("double", "mean", mean), number("double", "std", std)], normal=True)


def _exponential(call):
    wide = _wide(call.results[0])
    return _numbers(call, call.results[0], f"(u == {wide}(1) ? {wide}(5.9604645e-08) : -quick_log(u)) / {wide}(rate)",
                    [number("double", "rate", call.args[1])])


def _log_normal(call):
    wide = _wide(call.results[0])
    return _numbers(call, call.results[0], f"quick_exp(u * {wide}(std) + {wide}(mean))",
                    [number("double", "mean", call.args[1]), number("double", "std", call.args[2])], normal=True)


def _cauchy(call):
    wide = _wide(call.results[0])
    return _numbers(call, call.results[0], f"{wide}(median) + {wide}(sigma) * quick_tan({wide}(3.14159265358979) * "
                    f"(u - {wide}(0.5)))",
                    [number("double", "median", call.args[1]), number("double", "sigma", call.args[2])])


def _geometric(call):
    return _numbers(call, call.results[0], "ceil(log(u) / log1p(-p))", [number("double", "p", call.args[1])])


def _bernoulli(call):
    return _numbers(call, call.results[0], "u <= p", [number("double", "p", call.args[1])])


def _bernoulli_tensor(call):
    build, p = Build(call), call.args[1]
    plan_of_p = build.input("p", p)
    out = call.results[0]
    body = f"""    for (int k = 0; k < 4; ++k) {{
      const int64_t at = i + k * width;
      if (at < n) out[at] = cast<{build.type(out)}>(unit(w.v[k]) <= cast<float>(p[at % many]));
    }}
"""
    if numel(p) not in (1, numel(out)):
        raise NotImplementedError("bernoulli has no CUDA kernel yet for probabilities that broadcast")
    _draw(build, numel(out), 4, body, [build.output("out", out), plan_of_p, *sizes(many=numel(p))])
    return build.plan()


def _whole(call, low, high, out):
    """Whole numbers of [low, high), by 32 bits where these suffice."""
    build, width = Build(call), high - low
    wide = width >= 2**32
    body = f"""    for (int k = 0; k < {2 if wide else 4}; ++k) {{
      const int64_t at = i + k * width;
      const uint64_t v = {'uint64_t(w.v[2 * k]) << 32 | w.v[2 * k + 1]' if wide else 'w.v[k]'};
      if (at < n) out[at] = cast<{build.type(out)}>(int64_t((range ? v % range : v) + uint64_t(low)));
    }}
"""
    _draw(build, numel(out), 2 if wide else 4, body,
          [build.output("out", out), number("uint64_t", "range", width % 2**64), *sizes(low=low)])
    return build.plan()


def _randint(position):
    def rule(call):
        low, high = (0, call.args[position]) if position < 2 and call.name.endswith("high") else (
            call.args[position], call.args[position + 1])
        return _whole(call, low, high, call.results[0])
    return rule


_TOPS = {"bool": 2, "uint8": 2**8, "int8": 2**7, "int16": 2**15, "uint16": 2**16, "int32": 2**31, "uint32": 2**32,
         "int64": 2**63, "uint64": 2**64, "float16": 2**11 + 1, "bfloat16": 2**8 + 1, "float32": 2**24 + 1,
         "float64": 2**53 + 1}


def _random_(call):
    low, high = call.args[1:3]
    out = call.results[0]
    return _whole(call, low or 0, _TOPS[out.dtype] if high is None else high, out)


def _dropout(call):
    x, p = call.args[:2]
    build, (out, mask) = Build(call), call.results
    kind, wide, n = build.type(out), build.wide(out), numel(out)
    each = 1
    if wide == "float" and begin_aligned(x, out, mask):
        each = 4 if n % 4 == 0 else 2 if n % 2 == 0 else 1
    one = f"""const bool kept = unit(w.v[k]) < float(keep);
      {{mask}} = kept;
      {{out}} = cast<{kind}>(kept ? widen({{x}}) * ({wide}(1) / {wide}(keep)) : widen({{x}}) * {wide}(0));
"""
    if each == 1:
        body = f"""    for (int k = 0; k < 4; ++k) {{
      const int64_t at = i + k * width;
      if (at >= n) continue;
      {one.format(mask="mask[at]", out="out[at]", x="x[at]")}    }}
"""
    else:
        body = f"""    Pack<{kind}, {each}> to;
    Pack<bool, {each}> stays;
    for (int k = 0; k < {each}; ++k) {{
      {one.format(mask="stays.v[k]", out="to.v[k]", x="own.v[k]")}    }}
    store<{each}>(out + i, to);
    store<{each}>(mask + i, stays);
"""
    _draw(build, n, 4, body, [build.input("x", x), build.output("out", out), build.output("mask", mask),
                              number("double", "keep", 1 - p)], each)
    return build.plan()


#: draws of philox that a thread of such a kernel has to itself; one that needs more meets those of the next call
_RESERVED = 64


def _by_thread(value, more=(), least=False):
    """A rule whose threads draw as often as they need: `value` is an expression of the generator g and the operands."""
    def rule(call):
        build, out = Build(call), call.results[0]
        given = [build.input(name, info) for name, info in zip(("x", *more), call.args, strict=False)]
        limit = {"float": "1.17549435e-38", "double": "2.2250738585072014e-308"}.get(build.type(out))
        best = f"drawn < {limit} ? {limit} : drawn" if least else "drawn"
        build.each(numel(out), f"""  ThreadDraws g{{from.seed, uint64_t(i_), from.offset / 4}};
  const double drawn = {value};
  out[i_] = cast<{build.type(out)}>({best});
""", [Parameter("const Given given_", Seed(4 * _RESERVED)), *given, build.output("out", out)],
                   files=(*_FILES, "draws.cuh"))
        return build.plan()
    return rule


def _dirichlet(call):
    """Gamma samples, then each row by its sum: inside (0, 1), however small a share is."""
    x, out = call.args[0], call.results[0]
    build, n = Build(call), x.shape[-1]
    if numel(out) == 0:
        return nothing()
    parts = build.room("parts", "double", numel(x), 8)
    build.each(numel(x), """  ThreadDraws g{from.seed, uint64_t(i_), from.offset / 4};
  const double drawn = draws::draw_gamma(g, cast<double>(x[i_]));
  parts[i_] = drawn < 2.2250738585072014e-308 ? 2.2250738585072014e-308 : drawn;
""", [Parameter("const Given given_", Seed(4 * _RESERVED)), build.input("x", x), parts], files=(*_FILES, "draws.cuh"))
    kind = build.type(out)
    low, high = (("1.17549435e-38f", "0.99999994f") if kind == "float" else
                 ("2.2250738585072014e-308", "0.99999999999999988898"))
    build.run(f"""  double sum = 0;
  const double* row = parts + blockIdx.x * n;
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) sum += row[k];
  sum = sum_block(sum);
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) {{
    const {kind} v = {kind}(row[k] / sum);
    out[blockIdx.x * n + k] = v < {low} ? {low} : v < {high} ? v : {high};
  }}
""", [parts, build.output("out", out), *sizes(n=n)], numel(x) // n, 128)
    return build.plan()


def _multinomial(call):
    """With replacement: each sample searches the running sum. Without: the largest of p / exponential, one by one."""
    weights, samples, replacement = call.args[:3]
    build, out = Build(call), call.results[0]
    n = weights.shape[-1]
    rows = numel(weights) // n
    if numel(out) == 0:
        return nothing()
    given = [build.input("weights", weights), build.output("out", out),
             *sizes(n=n, samples=samples, rows=rows)]
    if replacement:
        build.run("""  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, row = i / samples;
  if (i >= rows * samples) return;
  double total = 0, sum = 0;
  for (int64_t k = 0; k < n; ++k) total += cast<double>(weights[row * n + k]);
  const Four w = philox(from.seed, uint64_t(i), from.offset / 4);
  const double aim = unit(w.v[0], w.v[1]) * total;
  int64_t best = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double v = cast<double>(weights[row * n + k]);
    sum += v;
    if (v > 0) best = k;
    if (sum >= aim && v > 0) break;
  }
  out[i] = best;
""", [Parameter("const Given given_", Seed(4)), *given], math.ceil(rows * samples / 256), 256, _FILES)
        return build.plan()
    keys = build.room("keys", "float", rows * n, 4)
    build.each(rows * n, """  const Four w = philox(from.seed, uint64_t(i_), from.offset / 4);
  const float p = cast<float>(weights[i_]);
  keys[i_] = p > 0 ? p / -log(unit(w.v[0]) * 0.99999994f) : -1.f;
""", [Parameter("const Given given_", Seed(4)), keys, *given], files=_FILES)
    build.run("""  typedef Lanes<ArgMax<float, float>> Op;
  __shared__ Op::Acc room[32];
  const Op op;
  for (int64_t s = 0; s < samples; ++s) {
    Op::Acc acc = op.init();
    for (int64_t k = threadIdx.x; k < n; k += blockDim.x) acc = op.add(acc, keys[blockIdx.x * n + k], k);
    acc = combine_block(op, acc, room);
    if (threadIdx.x == 0) {
      out[blockIdx.x * samples + s] = acc.place;
      keys[blockIdx.x * n + acc.place] = -2.f;
    }
    __syncthreads();
  }
""", [keys, *given], rows, 256, ("reduce.cuh",))
    return build.plan()


def _randperm(call):
    """The order of random keys of 64 bits; equal ones, which practically never meet, keep their order. As many digits
    of the upper halves as tell most elements apart are sorted by, then the few that share these by all bits."""
    out, build = call.results[0], Build(call)
    n = numel(out)
    if n == 0:
        return nothing()
    upper, lower, keys = (build.room(name, "uint32_t", n, 4) for name in ("x", "lower", "ordered"))
    places = build.room("order", "int64_t" if n >= 2**31 else "int32_t", n, 8 if n >= 2**31 else 4)
    build.each(n, """  const Four w = philox(from.seed, uint64_t(i_), from.offset / 4);
  x[i_] = w.v[0];
  lower[i_] = w.v[1];
""", [Parameter("const Given given_", Seed(4)), upper, lower], files=_FILES)
    info = out._replace(dtype="uint32", shape=(n,), strides=(1,))
    lowest = max(0, 4 - math.ceil((math.log2(n) + 2) / 8))
    found = Order(build, info, 0, False, upper._replace(declaration="const uint32_t* x"), lowest)
    found.put("    ordered[i] = key;\n    order[i] = place;\n", [keys, places])
    build.each(n, f"""  const Index i = i_;
  const auto top = [&](Index at) {{ return ordered[at] >> shift; }};
  if (i > 0 && top(i - 1) == top(i)) return;  // the first of those with these digits puts them all
  Index end = i + 1;
  while (end < n_ && top(end) == top(i)) ++end;
  for (Index a = i; a < end; ++a) {{
    const auto own = order[a];
    const uint64_t key = uint64_t(ordered[a]) << 32 | lower[own];
    Index rank = 0;
    for (Index b = i; b < end && end > i + 1; ++b) {{
      const uint64_t other = uint64_t(ordered[b]) << 32 | lower[order[b]];
      rank += other < key || (other == key && order[b] < own);
    }}
    out[i + rank] = cast<{build.type(out)}>(own);
  }}
""", [keys, places, lower, build.output("out", out), *sizes(shift=8 * lowest)])
    return build.plan()


RULES = {
    "rand": _rand, "rand_like": _rand, "randn": _normal, "randn_like": _normal, "uniform_": _uniform,
    "normal_": lambda call: _normal(call, *call.args[1:3]), "exponential_": _exponential,
    "log_normal_": _log_normal, "cauchy_": _cauchy,
    "geometric_": _geometric, "bernoulli_float_": _bernoulli, "bernoulli_tensor": _bernoulli_tensor,
    "randint.high": _randint(0), "randint.low": _randint(0), "randint_like.high": _randint(1),
    "randint_like.low": _randint(1), "random_": _random_, "dropout_forward": _dropout, "multinomial": _multinomial,
    "randperm": _randperm, "poisson": _by_thread("draws::draw_poisson(g, cast<double>(x[i_]))"),
    "_standard_gamma": _by_thread("draws::draw_gamma(g, cast<double>(x[i_]))", least=True),
    "_binomial": _by_thread("draws::draw_binomial(g, cast<double>(x[i_]), cast<double>(p[i_]))", ("p",)),
    "_sample_dirichlet": _dirichlet,
}
