"""Initial values of parameters: every function fills its tensor in place, outside autograd, and returns it.

The random ones draw the same numbers as PyTorch for the same seed.
"""

import math
import warnings

from .. import empty_like, no_grad, randperm
from .._shown import shown
from .._tensor.overriding import of_likes

_GAINS = {
    **dict.fromkeys(("linear", "sigmoid", "conv1d", "conv2d", "conv3d"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}

_MOST_DRAWS = 100_000


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the size of signals through `nonlinearity`; `param` is leaky_relu's slope (0.01).

    >>> from flambeau.nn import init
    >>> init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


@of_likes
@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@of_likes
@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal with the given mean and standard deviation."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, restricted to [a, b]: elements outside are drawn again until none is left.

    Where less than 30 % of the normal distribution lies in [a, b], uniform numbers are drawn instead and each is
    accepted with the density there, relative to the greatest in [a, b].
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            f"trunc_normal_: the interval [{a}, {b}] lies more than two std={std} away from mean={mean}, so the "
            "numbers drawn may be far from a normal distribution",
            stacklevel=2,
        )

    def below(x):
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    peak = ((min(max(mean, a), b) - mean) / std) ** 2

    def draw_normal(values):
        values.normal_(mean, std, generator=generator)
        return (values < a) | (values > b)

    def draw_uniform(values):
        values.uniform_(a, b, generator=generator)
        height = empty_like(values).uniform_(0, 1, generator=generator)
        return height > ((peak - ((values - mean) / std) ** 2) * 0.5).exp()

    draw = draw_normal if below(b) - below(a) >= 0.3 else draw_uniform
    wrong = draw(tensor)
    for _ in range(_MOST_DRAWS):
        if tensor.is_meta or not wrong.any():
            return tensor
        again = empty_like(tensor)  # draws go through memory in its order
        still_wrong = draw(again)
        tensor.copy_(again.where(wrong, tensor))
        wrong = wrong & still_wrong
    raise RuntimeError(f"trunc_normal_: [{a}, {b}] holds too little of the normal distribution ({mean}, {std})")


@of_likes
@no_grad()
def constant_(tensor, val):
    """Every element `val`."""
    return tensor.fill_(val)


def ones_(tensor):
    """Every element 1."""
    return constant_(tensor, 1.0)


@no_grad()
def zeros_(tensor):
    """Every element 0."""
    return tensor.zero_()


@no_grad()
def eye_(tensor):
    """The identity matrix, as far as the 2-d tensor has it."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: expected 2 dimensions, got shape {list(tensor.shape)}")
    tensor.zero_()
    tensor.diagonal().fill_(1)
    return tensor


@no_grad()
def dirac_(tensor, groups=1):
    """A convolution weight [out, in/groups, *kernel] that passes its input channels through, in each group."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("dirac_: expected the weight of a convolution, of 3 to 5 dimensions, got shape "
                         f"{list(tensor.shape)}")
    out, inputs, *kernel = tensor.size()
    if out % groups != 0:
        raise ValueError(f"dirac_: {out} output channels cannot be divided into groups={groups}")
    per_group = out // groups
    tensor.zero_()
    centre = tuple(k // 2 for k in kernel)
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """How many inputs one output has, and outputs one input, for a weight [out, in, *kernel]."""
    if tensor.ndim < 2:
        raise ValueError(f"fan_in and fan_out exist from 2 dimensions on, got shape {list(tensor.shape)}")
    out, inputs, *kernel = tensor.shape
    field = math.prod(kernel)
    return inputs * field, out * field


def _calculate_correct_fan(tensor, mode):
    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"kaiming: mode must be {' or '.join(map(repr, modes))}, got {shown(mode)}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _xavier_std(tensor, gain):
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform in ±gain sqrt(6 / (fan_in + fan_out))   (Glorot & Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out))   (Glorot & Bengio 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _nothing_to_do(tensor):
    if 0 in tensor.shape:
        warnings.warn(f"nn.init: a tensor of shape {list(tensor.shape)} has no elements to fill", stacklevel=3)
        return True
    return False


@of_likes
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform in ±gain sqrt(3 / fan)   (He et al. 2015); `a` is the slope of leaky_relu."""
    if _nothing_to_do(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal with standard deviation gain / sqrt(fan)   (He et al. 2015)."""
    if _nothing_to_do(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _uniform_bias_(bias, weight):
    """The bias of linear and convolution layers: uniform in ±1/sqrt(fan_in); nothing for no bias."""
    if bias is None:
        return
    fan_in, _ = _calculate_fan_in_and_fan_out(weight)
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
    uniform_(bias, -bound, bound)


@no_grad()
def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix times `gain`   (Saxe et al. 2013): Q of a normal matrix, made unique by R's signs."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: expected 2 or more dimensions, got shape {list(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    import numpy  # only this initialiser needs it

    rows = tensor.size(0)
    flat = tensor.new_empty((rows, tensor.numel() // rows)).normal_(0, 1, generator=generator)
    wide = rows < flat.size(1)
    q, r = numpy.linalg.qr((flat.t() if wide else flat).double().numpy())
    q = q * numpy.sign(numpy.diagonal(r))
    values = tensor.new_tensor(numpy.ascontiguousarray(q.T if wide else q))
    return tensor.copy_(values.view_as(tensor)).mul_(gain)


@no_grad()
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with the fraction `sparsity` of each column of the 2-d tensor set to 0   (Martens 2010)."""
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: expected 2 dimensions, got shape {list(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[randperm(rows)[:zeros], column] = 0
    return tensor


def _old_name(function):
    new = function.__name__
    old = new.removesuffix("_")

    def call(*args, **kwargs):
        warnings.warn(f"nn.init.{old} is the old name of nn.init.{new}; use the latter", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"The old name of {new}."
    return call


uniform = _old_name(uniform_)
normal = _old_name(normal_)
constant = _old_name(constant_)
eye = _old_name(eye_)
dirac = _old_name(dirac_)
xavier_uniform = _old_name(xavier_uniform_)
xavier_normal = _old_name(xavier_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
kaiming_normal = _old_name(kaiming_normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)


# the same under the names that packages reach for
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_
