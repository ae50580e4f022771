"""What distributions share: numbers become tensors of one shape, attributes are computed once, logits and triangles."""

from numbers import Number

import flambeau
from flambeau.nn import functional as F

from .._shown import shown


def is_tensor_like(value):
    """A tensor, or what stands in for one by `__torch_function__`."""
    return isinstance(value, flambeau.Tensor) or hasattr(value, "__torch_function__")


#: Euler's and Mascheroni's constant, minus the digamma function at 1
euler_constant = 0.5772156649015329


def broadcast_all(*values):
    """Tensors of one common shape. Numbers take the dtype and device of the first tensor, or the default dtype.

    >>> flambeau.distributions.utils.broadcast_all(1.0, flambeau.zeros(2))
    (tensor([1., 1.]), tensor([0., 0.]))
    """
    for k, value in enumerate(values):
        if not (isinstance(value, Number) or is_tensor_like(value)):
            raise ValueError(f"a parameter must be a number or a tensor; number {k + 1} of {len(values)} is "
                             f"{shown(value)}")
    if all(map(is_tensor_like, values)):
        return flambeau.broadcast_tensors(*values)
    first = next((v for v in values if isinstance(v, flambeau.Tensor)), None)
    options = {"dtype": flambeau.get_default_dtype()} if first is None else {"dtype": first.dtype,
                                                                             "device": first.device}
    tensors = (v if is_tensor_like(v) else flambeau.tensor(v, **options) for v in values)
    return flambeau.broadcast_tensors(*tensors)


def one_of(**choices):
    """The name of the only choice that is not None."""
    given = [name for name, value in choices.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"give exactly one of {', '.join(choices)}; got {' and '.join(given) or 'none of them'}")
    return given[0]


def clamp_probs(probs):
    """Probabilities moved into the open interval (0, 1), by one rounding unit of their dtype."""
    eps = flambeau.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs, is_binary=False):
    """log p, or for a single event its log odds log p - log(1 - p), finite also at 0 and 1.

    >>> flambeau.distributions.utils.probs_to_logits(flambeau.tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def logits_to_probs(logits, is_binary=False):
    """The inverse of probs_to_logits: softmax over the last dimension, or the sigmoid of log odds.

    >>> flambeau.distributions.utils.logits_to_probs(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def vec_to_tril_matrix(vec, diag=0):
    """Lower triangular matrices whose entries up to diagonal `diag` are the last dimension of `vec`, row by row.

    >>> flambeau.distributions.utils.vec_to_tril_matrix(flambeau.tensor([1., 2., 3.]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    count = vec.shape[-1]
    # the rows of an n x n triangle hold (n + diag) (n + diag + 1) / 2 entries where diag <= 0
    side = round((-1 - 2 * diag + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2)
    rows, columns = flambeau.tril_indices(side, side, diag, device=vec.device)
    if len(rows) != count:
        raise ValueError(f"{count} entries do not fill the triangle of a square matrix up to diagonal {diag}: "
                         f"{side} rows have {len(rows)}")
    matrix = vec.new_zeros(*vec.shape[:-1], side, side)
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat, diag=0):
    """The entries of the last two dimensions up to diagonal `diag`, row by row: the inverse of vec_to_tril_matrix.

    >>> flambeau.distributions.utils.tril_matrix_to_vec(flambeau.tensor([[1., 0.], [2., 3.]]))
    tensor([1., 2., 3.])
    """
    side = mat.shape[-1]
    if not -side <= diag < side:
        raise ValueError(f"diag ({diag}) must lie between {-side} and {side - 1} for a matrix of {side} columns")
    rows, columns = flambeau.tril_indices(side, side, diag, device=mat.device)
    return mat[..., rows, columns]


def _sum_rightmost(value, count):
    """The sum over the last `count` dimensions."""
    return value.flatten(-count).sum(-1) if count else value


def _standard_normal(shape, dtype, device):
    return flambeau.randn(shape, dtype=dtype, device=device)


class lazy_property:
    """An attribute that is computed when first read, with gradients, and then kept on the instance.

    >>> class Square:
    ...     side = 3
    ...     @flambeau.distributions.utils.lazy_property
    ...     def area(self):
    ...         return self.side ** 2
    >>> Square().area
    9
    """

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with flambeau.enable_grad():
            value = self.wrapped(instance)
        vars(instance)[self.name] = value  # past __setattr__, which may ask whether the name is there
        return value


class ProbsOrLogits:
    """Distributions given by probabilities or by logits: the one that was not given is computed when asked for."""

    _binary = True

    @lazy_property
    def logits(self):
        """Log odds, or for several categories their log probabilities up to a constant."""
        return probs_to_logits(self.probs, self._binary)

    @lazy_property
    def probs(self):
        """Probabilities."""
        return logits_to_probs(self.logits, self._binary)

    @property
    def _param(self):
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self):
        """The shape of probs and logits."""
        return self._param.shape


def minus_log_sigmoid(x):
    """log(1 + exp(-x)), to the last digit for large x as well."""
    return -F.logsigmoid(x)
