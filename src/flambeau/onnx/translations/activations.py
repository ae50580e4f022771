"""Activation functions and softmax."""

from ... import _C
from ._table import translates
from .functions import log1p_of
from .pointwise import operands


@translates("threshold")
def threshold(g, self, threshold, value, inplace=False):
    above = g.op("Greater", self, g.scalar(threshold, self.dtype))
    above = g.op("Or", above, g.op("IsNaN", self)) if self.dtype.is_floating_point else above
    return g.op("Where", above, self, g.scalar(value, self.dtype))


@translates("hardshrink")
def hardshrink(g, self, lambd=0.5):
    inside = g.op("LessOrEqual", g.op("Abs", self), g.scalar(lambd, self.dtype))
    return g.op("Where", inside, g.scalar(0, self.dtype), self)


@translates("softshrink")
def softshrink(g, self, lambd=0.5):
    """x less lambd on the right, plus lambd on the left, zero between."""
    bound = g.scalar(lambd, self.dtype)
    rest = g.op("Sub", g.op("Abs", self), bound)
    zero = g.scalar(0, self.dtype)
    shrunk = g.op("Mul", g.op("Sign", self), g.op("Where", g.op("Less", rest, zero), zero, rest))
    return shrunk


@translates("gelu")
def gelu(g, self, *, approximate="none"):
    return g.op("Gelu", self, approximate=approximate)


@translates("selu")
def selu(g, self, inplace=False):
    return g.op("Selu", self)


@translates("elu")
def elu(g, self, alpha=1, scale=1, input_scale=1, inplace=False):
    x = self if input_scale == 1 else g.op("Mul", self, g.scalar(input_scale, self.dtype))
    if input_scale == 1:
        x = g.op("Elu", self, alpha_f=alpha)
    else:
        below = g.op("Mul", g.op("Sub", g.op("Exp", x), g.scalar(1, self.dtype)), g.scalar(alpha, self.dtype))
        x = g.op("Where", g.op("Greater", self, g.scalar(0, self.dtype)), self, below)
    return x if scale == 1 else g.op("Mul", x, g.scalar(scale, self.dtype))


@translates("celu")
def celu(g, self, alpha=1, inplace=False):
    return g.op("Celu", self, alpha_f=alpha) if self.dtype is _C.float32 else _celu(g, self, alpha)


def _celu(g, x, alpha):
    zero, alpha = g.scalar(0, x.dtype), g.scalar(alpha, x.dtype)
    below = g.op("Sub", g.op("Mul", alpha, g.op("Exp", g.op("Div", x, alpha))), alpha)
    return g.op("Where", g.op("Greater", x, zero), x, below)


@translates("softplus")
def softplus(g, self, beta=1, threshold=20):
    """log(1 + exp(beta x)) / beta; where beta x is above the threshold, x."""
    x = self if beta == 1 else g.op("Mul", self, g.scalar(beta, self.dtype))
    soft = g.op("Softplus", x)
    soft = soft if beta == 1 else g.op("Div", soft, g.scalar(beta, self.dtype))
    return g.op("Where", g.op("Greater", x, g.scalar(threshold, self.dtype)), self, soft)


@translates("logsigmoid")
def logsigmoid(g, self):
    return log_sigmoid_of(g, self)


def log_sigmoid_of(g, x):
    """min(x, 0) - log(1 + exp(-|x|))."""
    low = g.op("Min", x, g.scalar(0, x.dtype))
    return g.op("Sub", low, log1p_of(g, g.op("Exp", g.op("Neg", g.op("Abs", x)))))


@translates("_logit")
def logit(g, self):
    x, = operands(g, self)
    return g.op("Log", g.op("Div", x, g.op("Sub", g.scalar(1.0, x.dtype), x)))


@translates("_gated")
def gated(g, self, gate):
    return g.op("Mul", self, g.op("Sigmoid", gate))


@translates("_leaky")
def leaky(g, self, slope):
    if slope.data is not None and slope.data.numel() == 1:
        return g.op("LeakyRelu", self, alpha_f=slope.data.item())
    return g.op("PRelu", self, g.cast(slope, self.dtype))


@translates("leaky_relu")
def leaky_relu(g, self, negative_slope=0.01, inplace=False):
    return g.op("LeakyRelu", self, alpha_f=negative_slope)


@translates("silu")
def silu(g, self, inplace=False):
    return g.op("Mul", self, g.op("Sigmoid", self))


@translates("mish")
def mish(g, self, inplace=False):
    return g.op("Mish", self)


@translates("hardswish")
def hardswish(g, self, inplace=False):
    return g.op("HardSwish", self)


@translates("hardsigmoid")
def hardsigmoid(g, self, inplace=False):
    return g.op("HardSigmoid", self, alpha_f=1 / 6, beta_f=0.5)


@translates("hardtanh")
def hardtanh(g, self, min_val=-1, max_val=1, inplace=False):
    low, high = g.scalar(min_val, self.dtype), g.scalar(max_val, self.dtype)
    return g.op("Clip", self, low, high) if self.dtype.is_floating_point else g.op("Min", g.op("Max", self, low), high)


@translates("relu6")
def relu6(g, self, inplace=False):
    return hardtanh(g, self, 0, 6)


def _softmax(kind):
    def translation(g, self, dim=None, dtype=None):
        x, = operands(g, self)
        if not x.shape:
            return g.squeeze(g.op(kind, g.unsqueeze(x, 0), axis=0), 0)
        return g.op(kind, x, axis=_implied(dim, x.rank))
    return translation


def _implied(dim, rank):
    """The dimension of softmax where the program names none."""
    return dim if dim is not None else 0 if rank in (0, 1, 3) else 1


translates("softmax")(_softmax("Softmax"))
translates("log_softmax")(_softmax("LogSoftmax"))
