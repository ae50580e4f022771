"""Activation functions as layers; each applies the function of `nn.functional` that it is named after."""

import warnings

from ... import full
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._sizes import Shown
from .module import Module


class _InPlace(Module):
    """An activation without parameters that can overwrite its input."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0).

    >>> import flambeau
    >>> flambeau.nn.ReLU()(flambeau.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input):
        return F.relu_(input) if self.inplace else input.relu()


class SiLU(_InPlace):
    """x sigmoid(x)   (Elfwing et al. 2017; also swish).

    >>> import flambeau
    >>> flambeau.nn.SiLU()(flambeau.zeros(1))
    tensor([0.])
    """

    def forward(self, input):
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x tanh(softplus(x))   (Misra 2019).

    >>> import flambeau
    >>> flambeau.nn.Mish()(flambeau.zeros(1))
    tensor([0.])
    """

    def forward(self, input):
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """scale (max(x, 0) + min(alpha (exp(x) - 1), 0)), with the self-normalizing constants   (Klambauer et al. 2017).

    >>> import flambeau
    >>> flambeau.nn.SELU()(flambeau.ones(1))
    tensor([1.0507])
    """

    def forward(self, input):
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """clamp(x / 6 + 1/2, 0, 1).

    >>> import flambeau
    >>> flambeau.nn.Hardsigmoid()(flambeau.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self):
        return ""


class Hardswish(_InPlace):
    """x hardsigmoid(x)   (Howard et al. 2019).

    >>> import flambeau
    >>> flambeau.nn.Hardswish()(flambeau.tensor([-4.0, 4.0]))
    tensor([-0., 4.])
    """

    def forward(self, input):
        return F.hardswish(input, self.inplace)

    def extra_repr(self):
        return ""


class Threshold(Shown, Module):
    """x where x > threshold, otherwise `value`.

    >>> import flambeau
    >>> flambeau.nn.Threshold(1.0, 9.0)(flambeau.tensor([0.5, 2.0]))
    tensor([9., 2.])
    """

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """leaky_relu whose slope is drawn from [lower, upper] in training and is their mean in evaluation.

    >>> import flambeau
    >>> flambeau.nn.RReLU(0.5, 0.5).eval()(flambeau.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """clamp(x, min_val, max_val).

    >>> import flambeau
    >>> flambeau.nn.Hardtanh()(flambeau.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        if min_value is not None or max_value is not None:  # the older names
            warnings.warn("keyword argument `min_value` and `max_value` are deprecated and renamed to `min_val` and "
                          "`max_val`", FutureWarning, stacklevel=2)
            min_val = min_val if min_value is None else min_value
            max_val = max_val if max_value is None else max_value
        if not max_val > min_val:
            raise AssertionError(f"Hardtanh: max_val must be larger than min_val, got {shown(min_val)} and "
                                 f"{shown(max_val)}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """clamp(x, 0, 6).

    >>> import flambeau
    >>> flambeau.nn.ReLU6()(flambeau.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """x where x > 0, otherwise alpha (exp(x) - 1)   (Clevert et al. 2015).

    >>> import flambeau
    >>> flambeau.nn.ELU()(flambeau.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """max(x, 0) + min(alpha (exp(x / alpha) - 1), 0)   (Barron 2017).

    >>> import flambeau
    >>> flambeau.nn.CELU()(flambeau.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """

    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """x where x >= 0, otherwise negative_slope x.

    >>> import flambeau
    >>> flambeau.nn.LeakyReLU(0.5)(flambeau.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, negative_slope=1e-2, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class PReLU(Shown, Module):
    """leaky_relu whose slope is learned, one for all or one per channel (dimension 1)   (He et al. 2015).

    >>> import flambeau
    >>> flambeau.nn.PReLU()(flambeau.tensor([[-4.0, 4.0]])).tolist()
    [[-1.0, 4.0]]
    """

    _shown = ("num_parameters",)

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self):
        """Set every slope to its initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import flambeau
    >>> flambeau.nn.Sigmoid()(flambeau.zeros(1))
    tensor([0.5000])
    """

    def forward(self, input):
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x)), without overflow.

    >>> import flambeau
    >>> flambeau.nn.LogSigmoid()(flambeau.zeros(1))
    tensor([-0.6931])
    """

    def forward(self, input):
        return F.logsigmoid(input)


class Tanh(Module):
    """tanh(x).

    >>> import flambeau
    >>> flambeau.nn.Tanh()(flambeau.zeros(1))
    tensor([0.])
    """

    def forward(self, input):
        return F.tanh(input)


class Softsign(Module):
    """x / (1 + |x|).

    >>> import flambeau
    >>> flambeau.nn.Softsign()(flambeau.ones(1))
    tensor([0.5000])
    """

    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> import flambeau
    >>> flambeau.nn.Tanhshrink()(flambeau.zeros(1))
    tensor([0.])
    """

    def forward(self, input):
        return F.tanhshrink(input)


class GELU(Shown, Module):
    """x Φ(x), Φ the normal distribution function; `approximate="tanh"` uses its tanh form   (Hendrycks & Gimpel 2016).

    >>> import flambeau
    >>> flambeau.nn.GELU()(flambeau.ones(1))
    tensor([0.8413])
    """

    _shown = ("approximate",)

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)


class GLU(Shown, Module):
    """a sigmoid(b), where a and b are the halves of the input along `dim`   (Dauphin et al. 2016).

    >>> import flambeau
    >>> flambeau.nn.GLU()(flambeau.tensor([[2.0, 0.0]]))
    tensor([[1.]])
    """

    _shown = ("dim",)

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)


class _Shrink(Module):
    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self):
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 where |x| <= lambd, otherwise x.

    >>> import flambeau
    >>> flambeau.nn.Hardshrink()(flambeau.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input):
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """0 where |x| <= lambd, otherwise x moved by lambd towards 0.

    >>> import flambeau
    >>> flambeau.nn.Softshrink()(flambeau.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input):
        return F.softshrink(input, self.lambd)


class Softplus(Shown, Module):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold.

    >>> import flambeau
    >>> flambeau.nn.Softplus()(flambeau.zeros(1))
    tensor([0.6931])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)


class _AlongDim(Shown, Module):
    _shown = ("dim",)

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


class Softmax(_AlongDim):
    """exp(x) divided by its sum along `dim`.

    >>> import flambeau
    >>> flambeau.nn.Softmax(dim=0)(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        return F.softmax(input, self.dim)


class Softmin(_AlongDim):
    """softmax(-x).

    >>> import flambeau
    >>> flambeau.nn.Softmin(dim=0)(flambeau.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """log(softmax(x)), without overflow.

    >>> import flambeau
    >>> flambeau.nn.LogSoftmax(dim=0)(flambeau.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input):
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of [N, C, H, W] or [C, H, W].

    >>> import flambeau
    >>> flambeau.nn.Softmax2d()(flambeau.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: input must have 4 dimensions, or 3 without a batch, got {input.dim()}")
        return F.softmax(input, -3)
