"""Tensors that are made: of one number, of counting, at random."""

import math

from ... import _C
from ..._tensor.creation import tensor
from .._dtypes import number_of
from .._emitter import Unavailable
from .._graph import Value
from ._table import entry, translates
from .pointwise import operands
from .views import broadcast


def filled(g, size, number, dtype=None):
    """A tensor of this size, full of one number."""
    dtype = dtype or g.dtype
    if isinstance(number, Value):
        return g.expand(g.of(number, dtype), size) if size else g.of(number, dtype)
    if not size:
        return g.scalar(number, dtype)
    value = tensor([number], dtype=dtype)
    made = g.op("ConstantOfShape", g.listed(size), value=value, dtype=dtype)
    return g.shaped(made, tuple(size) if all(isinstance(n, int) for n in size) else None)


def _size(g, like):
    return [g.size(like, d) for d in range(like.rank)]


for _name, _fill in {"zeros": 0, "ones": 1, "empty": 0}.items():
    entry(_name, lambda g, size, *, fill=_fill, **options: filled(g, size, fill))
    entry(f"{_name}_like", lambda g, self, *, fill=_fill, **options: filled(g, _size(g, self), fill))
    entry(f"new_{_name}", lambda g, self, size, *, fill=_fill, **options: filled(g, size, fill))


@translates("full")
def full(g, size, fill_value, **options):
    return filled(g, size, fill_value)


@translates("full_like")
def full_like(g, self, fill_value, **options):
    return filled(g, _size(g, self), fill_value)


@translates("new_full")
def new_full(g, self, size, fill_value, **options):
    return filled(g, size, fill_value)


@translates("empty_strided")
def empty_strided(g, size, stride, **options):
    return filled(g, size, 0)


@translates("fill_scalar_", "fill_tensor_")
def fill(g, self, value):
    return filled(g, _size(g, self), value)


@translates("zero_", "_zero")
def zero_(g, self):
    return filled(g, _size(g, self), 0)


@translates("copy_")
def copy_(g, self, src, non_blocking=False):
    return broadcast(g, g.cast(src, self.dtype), self)


@translates("arange")
def arange(g, start=None, end=None, step=1, **options):
    if end is None:
        start, end = 0, start
    dtype = g.dtype if g.dtype in (_C.int64, _C.int32, _C.int16, _C.float32, _C.float64) else (
        _C.float32 if g.dtype.is_floating_point else _C.int64)
    return g.op("Range", *(g.of(0 if x is None else x, dtype) for x in (start, end, step)), dtype=dtype)


@translates("linspace")
def linspace(g, start, end, steps, **options):
    """From both ends, so that both are exact."""
    dtype = g.dtype if g.dtype.is_floating_point else _C.float32
    if not isinstance(steps, int):
        raise Unavailable("linspace of an open number of steps is not written; use arange")
    if steps == 1:
        return g.reshape(g.of(start, dtype), [1])
    share = g.const(tensor([k / (steps - 1) for k in range(steps)], dtype=dtype))
    a, b = g.of(start, dtype), g.of(end, dtype)
    return g.op("Add", a, g.op("Mul", share, g.op("Sub", b, a)))


@translates("eye")
def eye(g, n, m=None, **options):
    m = n if m is None else m
    zeros = filled(g, [n, m], 0, _C.float32)
    return g.op("EyeLike", zeros)


# ---- at random: the numbers are others than here ---------------------------------------------------------------------

def _random(g, kind, size, dtype, **attributes):
    """RandomUniform or RandomNormal, in float32 for halves and integers."""
    own = dtype if dtype in (_C.float32, _C.float64) else _C.float32
    if all(isinstance(n, int) for n in size):
        made = g.op(kind, shape_i=list(size), dtype=own, **attributes)
        made.node.attributes["dtype"] = number_of(own)
        return g.cast(g.shaped(made, tuple(size)), dtype)
    made = g.op(f"{kind}Like", filled(g, size, 0, own), **attributes)
    return g.cast(made, dtype)


@translates("rand", "randn")
def rand(g, size, *, generator=None, **options):
    return _random(g, "RandomUniform" if g.kind == "rand" else "RandomNormal", size, g.dtype)


@translates("rand_like", "randn_like")
def rand_like(g, self, *, generator=None, **options):
    return _random(g, "RandomUniform" if g.kind == "rand_like" else "RandomNormal", _size(g, self), g.dtype)


def _integers(g, low, high, size):
    u = _random(g, "RandomUniform", size, _C.float64)
    width = g.op("Sub", g.of(high, _C.float64), g.of(low, _C.float64))
    whole = g.op("Floor", g.op("Mul", u, width))
    return g.op("Add", whole, g.of(low, _C.float64))


@translates("randint")
def randint(g, *args, generator=None, **options):
    low, high, size = args if len(args) == 3 else (0, *args)
    return _integers(g, low, high, size)


@translates("randint_like")
def randint_like(g, self, *args, generator=None, **options):
    low, high = args if len(args) == 2 else (0, *args)
    return _integers(g, low, high, _size(g, self))


@translates("randperm")
def randperm(g, n, *, generator=None, **options):
    """The order that random numbers are in."""
    if not isinstance(n, int):
        raise Unavailable("randperm of an open number is not written")
    _, places = g.op("TopK", _random(g, "RandomUniform", [n], _C.float32), [n], outputs=2)
    places.dtype = _C.int64
    return places


@translates("normal_")
def normal_(g, self, mean=0.0, std=1.0, *, generator=None):
    return _random(g, "RandomNormal", _size(g, self), self.dtype, mean_f=mean, scale_f=std)


@translates("uniform_")
def uniform_(g, self, low=0.0, high=1.0, *, generator=None):
    return _random(g, "RandomUniform", _size(g, self), self.dtype, low_f=low, high_f=high)


@translates("exponential_")
def exponential_(g, self, lambd=1.0, *, generator=None):
    u = _random(g, "RandomUniform", _size(g, self), self.dtype)
    one = g.scalar(1.0, self.dtype)
    return g.op("Div", g.op("Neg", g.op("Log", g.op("Sub", one, u))), g.scalar(lambd, self.dtype))


@translates("log_normal_")
def log_normal_(g, self, mean=1.0, std=2.0, *, generator=None):
    return g.op("Exp", normal_(g, self, mean, std))


@translates("cauchy_")
def cauchy_(g, self, median=0.0, sigma=1.0, *, generator=None):
    """median + sigma tan(pi (u - 1/2))."""
    u = _random(g, "RandomUniform", _size(g, self), self.dtype, low_f=-math.pi / 2, high_f=math.pi / 2)
    return g.op("Add", g.op("Mul", g.op("Tan", u), g.scalar(sigma, u.dtype)), g.scalar(median, u.dtype))


@translates("geometric_")
def geometric_(g, self, p, *, generator=None):
    """The number of trials: 1 + floor(log(u) / log(1 - p))."""
    u = _random(g, "RandomUniform", _size(g, self), _C.float32, low_f=1e-7)
    steps = g.op("Floor", g.op("Mul", g.op("Log", u), g.scalar(1 / math.log1p(-p) if p < 1 else 0.0, u.dtype)))
    return g.cast(g.op("Add", steps, g.scalar(1.0, u.dtype)), self.dtype)


@translates("random_")
def random_(g, self, low=None, high=None, *, generator=None):
    """Integers from low (0) up to high."""
    if high is None:
        raise Unavailable("random_ without an upper bound is not written; give one")
    return _integers(g, low or 0, high, _size(g, self))


@translates("multinomial")
def multinomial(g, self, num_samples, replacement=False, *, generator=None):
    """Places of the largest of log p + noise, whose noise is Gumbel's: of all at once, or of a row for each draw."""
    logs = g.op("Log", self)
    size = _size(g, self)
    if not replacement:
        noisy = g.op("Add", logs, _gumbel(g, size, self.dtype))
        _, places = g.op("TopK", noisy, g.listed([num_samples]), axis=-1, outputs=2)
        places.dtype = _C.int64
        return places
    noise = _gumbel(g, [*size[:-1], num_samples, size[-1]], self.dtype)
    return g.op("ArgMax", g.op("Add", g.unsqueeze(logs, self.rank - 1), noise), axis=-1, keepdims=0)


def _gumbel(g, size, dtype):
    """-log(-log(u))."""
    u = _random(g, "RandomUniform", size, dtype, low_f=1e-7)
    return g.op("Neg", g.op("Log", g.op("Neg", g.op("Log", u))))


@translates("bernoulli_float_")
def bernoulli_float_(g, self, p=0.5, *, generator=None):
    u = _random(g, "RandomUniform", _size(g, self), _C.float32)
    return g.cast(g.op("Less", u, g.scalar(p, _C.float32)), self.dtype)


@translates("bernoulli_tensor")
def bernoulli_tensor(g, self, p, *, generator=None):
    return g.cast(g.op("Bernoulli", p), self.dtype)


@translates("dropout_forward")
def dropout_forward(g, self, p, generator=None):
    found = g.op("Dropout", self, g.scalar(p, _C.float32), g.scalar(True, _C.bool), outputs=2)
    found[1].dtype = _C.bool
    return found


@translates("dropout_scale")
def dropout_scale(g, self, mask, p):
    x, m = operands(g, self, mask)
    return g.op("Mul", g.op("Mul", x, m), g.scalar(1 / (1 - p) if p < 1 else math.inf, x.dtype))
