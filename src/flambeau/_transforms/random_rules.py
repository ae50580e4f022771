"""Random operators inside `vmap` with randomness="different": one draw of the whole batch."""

from ..ops.kinds import OPS
from .batched import DRAWS, front

#: factories: the position of their size
_SIZES = {"rand": 0, "randn": 0, "randint.high": 1, "randint.low": 2}
#: operators that draw one number per element of their first argument
_POINTWISE = ("normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_",
              "bernoulli_float_", "rand_like", "randn_like", "randint_like.high", "randint_like.low", "poisson",
              "dropout_forward")


def _factory(at):
    def draw(op, size, values, marks, options):
        return op(*values[:at], (size, *values[at]), *values[at + 1:], **options)
    return draw


def _pointwise(op, size, values, marks, options):
    if any(marks[1:]):
        return NotImplemented
    value = values[0] if marks[0] else OPS["contiguous"](front(values[0], False, size))
    return op(value, *values[1:], **options)


DRAWS.update({name: _factory(at) for name, at in _SIZES.items()})
DRAWS.update(dict.fromkeys(_POINTWISE, _pointwise))
