"""Calls whose random numbers are compared with PyTorch's; `PYTHON -m tests.ops.random_cases torch` prints them as JSON.

random_golden.json holds that output of PyTorch 2.13 on a CPU.
"""

import importlib
import json
import sys

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
#: tensors to fill: below and above sixteen elements, transposed, with gaps, longer than the engine's block
LAYOUTS = {"5": lambda t, d: t.zeros(5, dtype=d), "15": lambda t, d: t.zeros(15, dtype=d),
           "16": lambda t, d: t.zeros(16, dtype=d), "35": lambda t, d: t.zeros(35, dtype=d),
           "transposed": lambda t, d: t.zeros(9, 7, dtype=d).t(), "gaps": lambda t, d: t.zeros(12, 8, dtype=d)[::2],
           "700": lambda t, d: t.zeros(700, dtype=d)}
IN_PLACE = [("normal_", (1.5, 2.0), (*FLOATS, "complex64", "complex128")), ("uniform_", (-1.0, 3.0), FLOATS),
            ("uniform_", (), FLOATS), ("exponential_", (2.0,), FLOATS), ("exponential_", (), FLOATS),
            ("geometric_", (0.3,), (*FLOATS, "int64", "int32", "uint8")), ("cauchy_", (0.5, 2.0), FLOATS),
            ("log_normal_", (0.5, 0.75), FLOATS), ("bernoulli_", (0.3,), FLOATS + INTEGERS),
            ("random_", (), FLOATS + INTEGERS), ("random_", (5,), (*FLOATS, *INTEGERS[:-1])),
            ("random_", (3, 100), (*FLOATS, *INTEGERS[:-1])), ("random_", (0, 1), ("bool",)),
            ("random_", (-7, 2000), (*FLOATS, *INTEGERS[:3]))]
RANGES = [(0, 2**24 + 5), (0, 2**28 - 1), (0, 2**28), (0, 2**28 + 1), (0, 2**31), (0, 2**32 - 1), (0, 2**32),
          (0, 2**40), (-2**62, 2**62), (0, 2**63 - 1), (2**20, 2**40)]


def filled(t):
    for name, arguments, dtypes in IN_PLACE:
        for d in dtypes:
            for layout, make in LAYOUTS.items():
                yield (f"{name}{arguments} {d} {layout}",
                       lambda make=make, d=d, name=name, a=arguments: getattr(make(t, getattr(t, d)), name)(*a))
    for bounds in RANGES:
        for d in ("int64", "float64"):
            if d == "int64" or bounds[1] < 2**62:
                yield (f"random_{bounds} {d}",
                       lambda b=bounds, d=d: t.zeros(20, dtype=getattr(t, d)).random_(*b))
    for n in (0, 1, 2, 5, 100, 1000, 40000, 70000):
        for d in ("int64", "int32", "float32", "float64"):
            yield f"randperm {n} {d}", lambda n=n, d=d: t.randperm(n, dtype=getattr(t, d))


def drawn(t):
    """Distributions by tensors of parameters."""
    for d in FLOATS:
        def make(values, d=d):
            return t.tensor(values, dtype=t.float64).to(getattr(t, d))
        p = make([k / 39 for k in range(40)])
        w = make([float(k) for k in range(1, 11)])
        mean, std = make([k / 10 - 1 for k in range(20)]), make([k / 10 for k in range(20)])
        rates = make([0.0, 0.5, 1, 3, 9.9, 10, 20, 100, 1000] * 5)
        yield f"bernoulli {d}", lambda p=p: t.bernoulli(p)
        yield f"bernoulli_(tensor) {d}", lambda p=p: t.zeros_like(p).bernoulli_(p)
        yield f"bernoulli(x, p) {d}", lambda p=p: t.bernoulli(p, 0.4)
        yield f"bernoulli transposed {d}", lambda p=p: t.bernoulli(p.reshape(5, 8).t())
        for n, again in ((1, False), (3, False), (10, False), (1, True), (5, True), (50, True)):
            yield f"multinomial {n} {again} {d}", lambda w=w, n=n, again=again: t.multinomial(w, n, again)
            yield (f"multinomial rows {n} {again} {d}", lambda w=w, n=n, again=again:
                   t.multinomial(t.stack([w, w.flip(0), w * 0 + 1]), n, again))
        yield f"poisson {d}", lambda x=rates: t.poisson(x)
        yield f"poisson transposed {d}", lambda x=rates: t.poisson(x.reshape(9, 5).t())
        yield f"normal(tensor, tensor) {d}", lambda m=mean, s=std: t.normal(m, s)
        yield f"normal(tensor, number) {d}", lambda m=mean: t.normal(m, 2.0)
        yield f"normal(number, tensor) {d}", lambda s=std: t.normal(1.0, s)
        yield f"normal(tensor) {d}", lambda m=mean: t.normal(m)
        yield f"normal few {d}", lambda m=mean, s=std: t.normal(m[:5], s[:5])
        yield f"normal(size) {d}", lambda d=d: t.normal(1.0, 2.0, (20,), dtype=getattr(t, d))
        if "float16" not in d:
            alpha = make([0.1, 0.5, 1, 2.5, 10, 100] * 6)
            count, chance = make([0.0, 1, 5, 10, 20, 100, 1000] * 5), make([k / 34 for k in range(35)])
            yield f"gamma {d}", lambda a=alpha: t._standard_gamma(a)
            yield f"gamma transposed {d}", lambda a=alpha: t._standard_gamma(a.reshape(6, 6).t())
            yield f"dirichlet {d}", lambda a=alpha: t._sample_dirichlet(a.reshape(6, 6))
            yield f"binomial {d}", lambda n=count, p=chance: t.binomial(n, p)


def noised(t):
    """rand and its like, dropout and its like, initialisers."""
    f = t.nn.functional
    for d in (*FLOATS, "complex64", "complex128"):
        for size in ((5,), (15,), (16,), (35,), (7, 9), (700,)):
            yield f"rand {size} {d}", lambda size=size, d=d: t.rand(size, dtype=getattr(t, d))
            yield f"randn {size} {d}", lambda size=size, d=d: t.randn(size, dtype=getattr(t, d))
    for d in FLOATS:
        for layout, make in LAYOUTS.items():
            x = make(t, getattr(t, d)) + 1
            yield f"rand_like {d} {layout}", lambda x=x: t.rand_like(x)
            yield f"randn_like {d} {layout}", lambda x=x: t.randn_like(x)
            yield f"randint_like {d} {layout}", lambda x=x: t.randint_like(x, 100)
            yield f"dropout {d} {layout}", lambda x=x: f.dropout(x, 0.3)
            yield f"native_dropout {d} {layout}", lambda x=x: t.native_dropout(x, 0.3, True)[1]
            yield f"alpha_dropout {d} {layout}", lambda x=x: f.alpha_dropout(x, 0.3, True)
            yield f"gumbel_softmax {d} {layout}", lambda x=x: f.gumbel_softmax(x, dim=0)
            if "float16" not in d:
                yield f"rrelu {d} {layout}", lambda x=x: f.rrelu(-x, 0.1, 0.4, True)
                yield (f"rrelu some {d} {layout}",
                       lambda x=x: f.rrelu(x.cumsum(0) % 3 - 1, 0.1, 0.4, True))
        z = t.ones(3, 4, 5, 6, dtype=getattr(t, d))
        yield f"dropout2d {d}", lambda z=z: f.dropout2d(z, 0.4)
        yield f"dropout1d {d}", lambda z=z: f.dropout1d(z[0], 0.4)
        yield f"dropout3d {d}", lambda z=z: f.dropout3d(z[None], 0.4)
        yield f"feature_alpha_dropout {d}", lambda z=z: f.feature_alpha_dropout(z, 0.4, True)
        yield f"dropout permuted {d}", lambda z=z: f.dropout(z.permute(0, 2, 3, 1), 0.4)
        yield f"trunc_normal_ {d}", lambda d=d: t.nn.init.trunc_normal_(t.zeros(40, dtype=getattr(t, d)))
        yield (f"trunc_normal_ narrow {d}",
               lambda d=d: t.nn.init.trunc_normal_(t.zeros(40, dtype=getattr(t, d)), 1.0, 2.0, -0.5, 0.5))
    yield "randint", lambda: t.randint(-5, 17, (30,))
    yield "randint large", lambda: t.randint(0, 2**40, (30,))
    yield "randint float", lambda: t.randint(17, (30,), dtype=t.float32)
    yield "in turn", lambda: t.cat([t.randn(3), t.rand(2), t.randn(2), t.randn(20), t.randn(2)])
    yield "in turn, wide", lambda: t.cat([t.randn(3, dtype=t.float64), t.zeros(2, dtype=t.float64).log_normal_(),
                                          t.randn(20, dtype=t.float64), t.randn(1, dtype=t.float64)])


def cases(t):
    yield from filled(t)
    yield from drawn(t)
    yield from noised(t)


def outcome(t, f):
    """[first and last numbers, sum of all, what rand gives next]"""
    t.manual_seed(12345)
    x = f().detach()
    x = (t.view_as_real(x) if x.is_complex() else x).reshape(-1)
    values = x.double().tolist() if x.is_floating_point() else [int(v) for v in x.tolist()]
    shown = [float(f"{v:.12g}") if isinstance(v, float) else v for v in (*values[:3], *values[-3:])]
    return [shown, float(f"{sum(values):.9g}"), round(t.rand(1, dtype=t.float64).item(), 12)]


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    table = {key: outcome(library, f) for key, f in cases(library)}
    rows = (f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in table.items())
    print("{\n" + ",\n".join(rows) + "\n}")
