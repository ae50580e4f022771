"""Random operators inside `vmap` with randomness="different": one draw of the whole batch."""

from ..ops.kinds import OPS
from ..ops.random import MEMORY
from .batched import DRAWS, Batched, BatchFrame, elementwise, front
from .levels import below, innermost

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


def _of_tensors(op, size, values, marks, options):
    """Draws whose chances are tensors, too."""
    if any(v.ndim == m for v, m in zip(values, marks, strict=True)):  # single numbers, which promotion would convert
        return NotImplemented
    first = values[0] if marks[0] else OPS["contiguous"](front(values[0], False, size))
    return elementwise(op, size, [first, *values[1:]], [True, *marks[1:]], options)


def _memory(shape, like, options):
    frame = innermost()
    if frame is None or (like is not None and not _needs_batch(frame, like)):
        return OPS["empty"](shape, **options) if like is None else OPS["empty_like"](like)
    if like is not None:
        shape, options = like.shape, {"dtype": like.dtype, "device": like.device}
    with below(frame):
        if isinstance(frame, BatchFrame) and frame.randomness == "different":
            return frame.wrap(_memory((frame.size, *shape), None, options))
        return frame.lift(_memory(shape, None, options))


def _needs_batch(frame, like):
    return isinstance(frame, BatchFrame) and not (type(like) is Batched and like.frame is frame and like.batched)


MEMORY["make"] = _memory
DRAWS.update({name: _factory(at) for name, at in _SIZES.items()})
DRAWS.update(dict.fromkeys(_POINTWISE, _pointwise))
DRAWS.update(dict.fromkeys(("bernoulli_tensor", "bernoulli_tensor_"), _of_tensors))
