"""Generators of sample calls by the form of the arguments: unary, pairs, reductions, along a dimension, and so on."""

from .calls import call
from .matrices import LINALG_FORMS
from .networks import NN_FORMS
from .shapes import SHAPE_FORMS
from .signals import SIGNAL_FORMS

SHAPES = ((), (3,), (2, 3), (0, 3), (2, 1, 4))
BROADCASTS = (((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2, 3)), ((2, 3), ()), ((0, 3), (1,)),
              ((3, 1, 2), (4, 1)))


def reals(m, low=-2.0, high=2.0):
    for shape in SHAPES:
        yield call(m.f(*shape, low=low, high=high))


def distinct(m, low=-2.0, high=2.0):
    for shape in ((), (3,), (2, 3), (2, 1, 4)):
        yield call(m.distinct(*shape, low=low, high=high))


def pairs(m, low=-2.0, high=2.0, low2=None, high2=None, broadcasting=True):
    low2, high2 = low if low2 is None else low2, high if high2 is None else high2
    for a, b in BROADCASTS if broadcasting else [(s, s) for s in SHAPES]:
        yield call(m.f(*a, low=low, high=high), m.f(*b, low=low2, high=high2))


def pairs_numbers(m, low=-2.0, high=2.0, low2=None, high2=None):
    """pairs, and a Python number as the second operand."""
    yield from pairs(m, low, high, low2, high2)
    yield call(m.f(2, 3, low=low, high=high), 2)
    yield call(m.f(2, 3, low=low, high=high), 1.5)


def nonzero_pairs(m):
    yield from pairs(m, -2.0, 2.0, 0.5, 2.0)


def positive_pairs(m):
    yield from pairs(m, 0.3, 2.0)


def dirichlet_shares(m):
    """Shares of 1, concentrations, and larger sums of concentrations."""
    for shapes in (((2, 3),) * 3, ((2, 3), (3,), (2, 1)), ((), (3,), (2, 1)), ((0, 2), (2,), ())):
        yield call(*(m.f(*s, low=low, high=high) for s, low, high in zip(shapes, (0.1, 0.3, 2.5), (0.9, 2.0, 5.0))))


def far_pairs(m):
    """Pairs whose quotient keeps away from whole numbers: floor, remainder and their kind jump there."""
    for a, b in BROADCASTS:
        yield call(m.f(*a, low=2.2, high=2.8), m.f(*b, low=0.95, high=1.05))


def triples(m, low=-2.0, high=2.0):
    for shapes in (((2, 3),) * 3, ((2, 3), (3,), (2, 1)), ((), (3,), (2, 1)), ((0, 2), (2,), ())):
        yield call(*(m.f(*s, low=low, high=high) for s in shapes))


def integers(m, low=0, high=8):
    for shape in SHAPES:
        yield call(m.i(*shape, low=low, high=high))


def integer_pairs(m, low=0, high=8):
    for a, b in BROADCASTS:
        yield call(m.i(*a, low=low, high=high), m.i(*b, low=max(low, 1), high=high))


def shift_pairs(m):
    for a, b in BROADCASTS:
        yield call(m.i(*a, low=0, high=64), m.i(*b, low=0, high=5))


def bools(m):
    for shape in SHAPES:
        yield call(m.b(*shape))


def bool_pairs(m):
    for a, b in BROADCASTS:
        yield call(m.b(*a), m.b(*b))


def second_slopes(m, low=-2.0, high=2.0, low2=None, high2=None):
    """pairs, whose first has no derivative."""
    for a, b in BROADCASTS:
        yield call(m.f(*a, low=low, high=high, grad=False),
                   m.f(*b, low=low if low2 is None else low2, high=high if high2 is None else high2))


def degrees(m):
    """Numbers and the degrees of polynomials."""
    for a, b in BROADCASTS:
        yield call(m.f(*a, low=-1.5, high=1.5), m.i(*b, low=0, high=5))
    yield call(m.f(2, 3, low=0.1, high=0.9), 3)


def scalar_second(m, *values):
    """A tensor and a Python number."""
    for value in values or (2, 0.5):
        yield call(m.f(2, 3, low=0.2, high=2.0), value)


def scalar_first(m, *values):
    for value in values or (2, 0.5):
        yield call(value, m.f(2, 3, low=0.2, high=2.0))


def clamp(m, *_):
    x = m.f(2, 3)
    yield call(x, -0.5, 0.7)
    yield call(m.f(3), min=0.1)
    yield call(m.f(0, 3), max=0.1)
    yield call(m.f(), -1, 1)


def clamp_tensors(m):
    yield call(m.f(2, 3), m.f(3, low=-1, high=-0.5), m.f(2, 1, low=0.5, high=1))
    yield call(m.f(2, 3), m.f(3, low=-1, high=-0.5))


def where(m):
    for c, a, b in (((2, 3),) * 3, ((2, 1), (3,), (2, 3)), ((), (2,), ()), ((0, 2), (2,), (1, 2))):
        yield call(m.b(*c), m.f(*a), m.f(*b))


def lerp(m):
    yield call(m.f(2, 3), m.f(3), 0.3)
    yield call(m.f(2, 3), m.f(3), 0.8)
    yield call(m.f(0, 3), m.f(3), 0.5)


def addc(m):
    yield from triples(m, 0.4, 2.0)
    yield call(m.f(2, 3), m.f(2, 3), m.f(3, low=0.5, high=1.5), value=0.5)


# --- reductions and scans -----------------------------------------------------------------------------------------

def reduce_dim(m, low=-2.0, high=2.0):
    """One `dim`, or none."""
    yield call(m.f(2, 3, low=low, high=high))
    yield call(m.f(low=low, high=high))
    for dim, keepdim in ((0, False), (-1, True), (1, False)):
        yield call(m.f(2, 3, 2, low=low, high=high), dim, keepdim)
    yield call(m.f(3, 0, low=low, high=high), 0)


def reduce(m, low=-2.0, high=2.0):
    """One dim, several, or none."""
    yield from reduce_dim(m, low, high)
    yield call(m.f(2, 3, 2, low=low, high=high), (0, 2))
    yield call(m.f(2, 3, 2, low=low, high=high), dim=(-1, 1), keepdim=True)


def reduce_distinct(m, low=-2.0, high=2.0):
    """Reductions that pick an element."""
    yield call(m.distinct(2, 3, low=low, high=high))
    yield call(m.distinct(low=low, high=high))
    for dim, keepdim in ((0, False), (-1, True), (1, False)):
        yield call(m.distinct(2, 3, 2, low=low, high=high), dim, keepdim)


def reduce_needs_dim(m, low=-2.0, high=2.0):
    for dim, keepdim in ((0, False), (-1, True), (1, False)):
        yield call(m.distinct(2, 3, 2, low=low, high=high), dim, keepdim)
    yield call(m.distinct(low=low, high=high), 0)


def aminmax(m):
    yield call(m.distinct(2, 3))
    yield call(m.distinct(2, 3), dim=0)
    yield call(m.distinct(2, 3), dim=-1, keepdim=True)


def reduce_several_distinct(m):
    yield call(m.distinct(2, 3))
    yield call(m.distinct(2, 3, 2), (0, 2))
    yield call(m.distinct(2, 3, 2), dim=(1,), keepdim=True)


def variance(m):
    yield call(m.f(2, 3))
    yield call(m.f(4, 3), 0)
    yield call(m.f(2, 3, 2), (0, 1))
    yield call(m.f(4, 3), 1, correction=0)
    yield call(m.f(4, 3), dim=-1, keepdim=True)


def logsumexp(m):
    yield call(m.f(2, 3), 0)
    yield call(m.f(2, 3, 2), (0, 2))
    yield call(m.f(2, 3), -1, True)


def norm(m):
    yield call(m.f(2, 3))
    yield call(m.f(2, 3), 2, 1)
    yield call(m.f(2, 3), 1, (0,), True)
    yield call(m.f(2, 3), 3.0)
    yield call(m.distinct(2, 3), float("inf"))


def along(m, low=-2.0, high=2.0):
    """A tensor and a dimension: scans, softmax, flips of one dimension."""
    yield call(m.f(3, low=low, high=high), 0)
    yield call(m.f(2, 3, low=low, high=high), 1)
    yield call(m.f(2, 3, 2, low=low, high=high), -2)
    yield call(m.f(low=low, high=high), 0)
    yield call(m.f(2, 0, low=low, high=high), 1)


def along_distinct(m):
    yield call(m.distinct(4), 0)
    yield call(m.distinct(2, 3), 1)
    yield call(m.distinct(2, 3, 2), -2)


def sort(m):
    yield call(m.distinct(5))
    yield call(m.distinct(3, 4), 0)
    yield call(m.distinct(2, 3, 2), 1, True)
    yield call(m.distinct())


def topk(m):
    yield call(m.distinct(6), 3)
    yield call(m.distinct(2, 5), 2, 1)
    yield call(m.distinct(4, 3), 2, 0, False)


def kthvalue(m):
    yield call(m.distinct(6), 3)
    yield call(m.distinct(2, 5), 2, 1)
    yield call(m.distinct(4, 3), 2, 0, True)


# --- linear algebra -----------------------------------------------------------------------------------------------

def mm(m):
    for a, b in (((2, 3), (3, 4)), ((1, 3), (3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3))):
        yield call(m.f(*a), m.f(*b))


def bmm(m):
    for a, b in (((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 2)), ((1, 2, 0), (1, 0, 2))):
        yield call(m.f(*a), m.f(*b))


def mv(m):
    yield call(m.f(2, 3), m.f(3))
    yield call(m.f(2, 0), m.f(0))


def dot(m):
    yield call(m.f(4), m.f(4))
    yield call(m.f(0), m.f(0))


def outer(m):
    yield call(m.f(2), m.f(3))
    yield call(m.f(0), m.f(3))


def matmul(m):
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3,)),
                 ((3,), (2, 3, 2)), ((2, 2, 3), (3, 2)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)),
                 ((2, 0, 3), (3, 2))):
        yield call(m.f(*a), m.f(*b))


def addmm(m):
    yield call(m.f(2, 4), m.f(2, 3), m.f(3, 4))
    yield call(m.f(4), m.f(2, 3), m.f(3, 4), beta=2, alpha=3)
    yield call(m.f(2, 1), m.f(2, 0), m.f(0, 4), beta=2)


def addmv(m):
    yield call(m.f(2), m.f(2, 3), m.f(3))
    yield call(m.f(1), m.f(2, 3), m.f(3), beta=2, alpha=3)


def addr(m):
    yield call(m.f(2, 3), m.f(2), m.f(3))
    yield call(m.f(3), m.f(2), m.f(3), beta=2, alpha=3)


def baddbmm(m):
    yield call(m.f(2, 2, 4), m.f(2, 2, 3), m.f(2, 3, 4))
    yield call(m.f(4), m.f(2, 2, 3), m.f(2, 3, 4), beta=2, alpha=3)


def addbmm(m):
    yield call(m.f(2, 4), m.f(2, 2, 3), m.f(2, 3, 4))
    yield call(m.f(4), m.f(2, 2, 3), m.f(2, 3, 4), beta=2, alpha=3)


def einsum(m):
    yield call("ij,jk->ik", m.f(2, 3), m.f(3, 4))
    yield call("bij,bjk->bik", m.f(2, 2, 3), m.f(2, 3, 2))
    yield call("ii->i", m.f(3, 3))
    yield call("i,j->ij", m.f(2), m.f(3))
    yield call("...ij,...jk", m.f(2, 2, 3), m.f(3, 2))
    yield call("ij->", m.f(2, 3))


def tensordot(m):
    yield call(m.f(2, 3, 4), m.f(3, 4, 2), 2)
    yield call(m.f(2, 3), m.f(3, 2), ([1], [0]))


def cross(m):
    yield call(m.f(2, 3), m.f(2, 3), dim=1)


def cdist(m):
    yield call(m.f(3, 2), m.f(4, 2))


def kron(m):
    yield call(m.f(2, 2), m.f(3, 1))


GENERATORS = {
    "reals": reals, "distinct": distinct, "unary": reals, "pairs": pairs, "pairs_numbers": pairs_numbers,
    "nonzero_pairs": nonzero_pairs, "positive_pairs": positive_pairs, "dirichlet_shares": dirichlet_shares,
    "far_pairs": far_pairs, "triples": triples,
    "integers": integers, "ints": integers, "integer_pairs": integer_pairs, "int_pairs": integer_pairs,
    "shift_pairs": shift_pairs, "bools": bools, "bool_pairs": bool_pairs, "degrees": degrees,
    "second_slopes": second_slopes, "scalar_second": scalar_second,
    "scalar_first": scalar_first, "clamp_tensors": clamp_tensors, "reduce": reduce, "reduce_dim": reduce_dim,
    "reduce_distinct": reduce_distinct, "reduce_needs_dim": reduce_needs_dim, "variance": variance, "along": along,
    "reduce_several_distinct": reduce_several_distinct, "along_distinct": along_distinct, "sort": sort, "addc": addc,
    # named like the operators whose argument form they are
    "clamp": clamp, "clip": clamp, "where": where, "lerp": lerp, "addcmul": addc, "addcdiv": addc,
    "amax": reduce_several_distinct, "amin": reduce_several_distinct, "argmax": reduce_distinct,
    "argmin": reduce_distinct, "var": variance, "std": variance, "var_mean": variance, "std_mean": variance,
    "logsumexp": logsumexp, "norm": norm, "cumsum": along, "cumprod": along, "logcumsumexp": along,
    "softmax": along, "log_softmax": along, "softmin": along, "cummax": along_distinct, "cummin": along_distinct,
    "argsort": sort, "msort": distinct, "topk": topk, "kthvalue": kthvalue, "median": reduce_distinct,
    "mm": mm, "bmm": bmm, "mv": mv, "dot": dot, "vdot": dot, "inner": dot, "outer": outer, "ger": outer,
    "matmul": matmul, "addmm": addmm, "addmv": addmv, "addr": addr, "baddbmm": baddbmm, "addbmm": addbmm,
    "einsum": einsum, "tensordot": tensordot, "cross": cross, "cdist": cdist, "kron": kron,
    "aminmax": aminmax,
    "max.dim": reduce_needs_dim, "min.dim": reduce_needs_dim, "median.dim": reduce_needs_dim,
    "max.other": pairs, "min.other": pairs, "bitwise_left_shift": shift_pairs, "bitwise_right_shift": shift_pairs,
    "bitwise_and": integer_pairs, "bitwise_or": integer_pairs, "bitwise_xor": integer_pairs,
    "bitwise_not": integers, "gcd": integer_pairs, "lcm": integer_pairs,
    **SHAPE_FORMS, **NN_FORMS, **LINALG_FORMS, **SIGNAL_FORMS,
}
