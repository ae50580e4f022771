"""Activation functions and the primitives of their derivatives."""

import math

from .._C import float64
from .._shown import shown
from .arithmetic import mul_conj, zero
from .dims import wrap_dim
from .kinds import composite, elementwise
from .masks import where


def _slope(schema, doc, samples="pairs", *, cuda, **rules):
    """The derivative of an activation as one pass: (gradient, input or result, parameters) -> gradient."""
    return elementwise(schema + " -> Tensor", namespace=None, inplace=False, out=False, d=rules, samples=samples,
                       doc=doc, cuda=cuda)


def _activation(schema, rule, doc, samples=("reals", -2.0, 2.0), **facts):
    """A function of nn.functional with `inplace=`, and its in-place form."""
    return elementwise(schema + " -> Tensor", namespace="nn.functional", method=False, out=False, d={"self": rule},
                       samples=samples, doc=doc, **facts)


# --- relu and its kin: piecewise linear -------------------------------------------------------------------------------

def _flat(g):
    """A piecewise constant slope: its derivative is there to be asked for, and is 0 wherever it exists."""
    return zero(g)


threshold_backward = _slope(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold=0)",
    "grad_output where self is above the threshold, 0 elsewhere.",
    grad_output=lambda g, self, threshold: threshold_backward(g, self, threshold),
    self=_flat,
    cuda="self <= threshold ? T(0) : grad_output")
relu = elementwise(
    "relu(Tensor self, bool inplace=False) -> Tensor", aliases=("nn.functional.relu",), out=False,
    d={"self": lambda g, result: threshold_backward(g, result, 0)}, samples="distinct",
    doc="max(x, 0).\n\n>>> flambeau.relu(flambeau.tensor([-1., 2.]))\ntensor([0., 2.])",
    cuda="self < T(0) ? T(0) : self")
threshold = elementwise(
    "threshold(Tensor self, Scalar threshold, Scalar value, bool inplace=False) -> Tensor", method=False,
    aliases=("nn.functional.threshold",), d={"self": lambda g, self, threshold: threshold_backward(g, self, threshold)},
    samples=("scalar_second_pair", 0.1, 20.0), doc="x where it is above the threshold, `value` elsewhere.",
    cuda="self <= threshold ? value : self")
hardtanh_backward = _slope(
    "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val=-1, Scalar max_val=1)",
    "grad_output where self lies inside (min_val, max_val).",
    grad_output=lambda g, self, min_val, max_val: hardtanh_backward(g, self, min_val, max_val),
    self=_flat,
    cuda="self <= min_val || max_val <= self ? T(0) : grad_output")
hardtanh = _activation(
    "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1, bool inplace=False)",
    lambda g, self, min_val, max_val: hardtanh_backward(g, self, min_val, max_val), "x moved into [min_val, max_val].",
    "distinct", cuda="clip(self, min_val, max_val)")
relu6 = _activation("relu6(Tensor self, bool inplace=False)", lambda g, result: hardtanh_backward(g, result, 0, 6),
                    "min(max(x, 0), 6).", ("distinct", -2.0, 8.0), node="HardtanhBackward0",
                    cuda="clip(self, T(0), T(6))")
leaky_relu_backward = _slope(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope=0.01)",
    "grad_output, times the slope where self is not positive.",
    grad_output=lambda g, self, negative_slope: leaky_relu_backward(g, self, negative_slope),
    self=_flat,
    cuda="T(0) < self ? grad_output : grad_output * negative_slope")
leaky_relu = _activation(
    "leaky_relu(Tensor self, Scalar negative_slope=0.01, bool inplace=False)",
    lambda g, self, negative_slope: leaky_relu_backward(g, self, negative_slope),
    "x where positive, negative_slope * x elsewhere.", "distinct", cuda="T(0) < self ? self : self * negative_slope")
hardsigmoid_backward = _slope(
    "hardsigmoid_backward(Tensor grad_output, Tensor self)", "grad_output / 6 where |self| < 3.",
    grad_output=lambda g, self: hardsigmoid_backward(g, self),
    cuda="T(-3) < self && self < T(3) ? grad_output * T(1.0 / 6.0) : T(0)")
hardsigmoid = _activation("hardsigmoid(Tensor self, bool inplace=False)", lambda g, self: hardsigmoid_backward(g, self),
                          "min(max(x + 3, 0), 6) / 6.", cuda="clip(self + T(3), T(0), T(6)) / T(6)")
hardswish_backward = _slope(
    "hardswish_backward(Tensor grad_output, Tensor self)", "grad_output times the derivative of hardswish.",
    grad_output=lambda g, self: hardswish_backward(g, self),
    self=lambda g, grad_output, self: where(self.abs() < 3, g * grad_output / 3, 0.0),
    cuda="self <= T(-3) ? T(0) : self < T(3) ? grad_output * (self / T(3) + T(0.5)) : grad_output")
hardswish = _activation("hardswish(Tensor self, bool inplace=False)", lambda g, self: hardswish_backward(g, self),
                        "x * min(max(x + 3, 0), 6) / 6.", cuda="self * clip(self + T(3), T(0), T(6)) / T(6)")
shrink_backward = _slope(
    "shrink_backward(Tensor grad_output, Tensor self, Scalar lambd=0.5)", "grad_output where |self| > lambd.",
    grad_output=lambda g, self, lambd: shrink_backward(g, self, lambd),
    self=_flat,
    cuda="-lambd <= self && self <= lambd ? T(0) : grad_output")
hardshrink = elementwise(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", inplace=False, aliases=("nn.functional.hardshrink",),
    d={"self": lambda g, self, lambd: shrink_backward(g, self, lambd)}, samples="distinct",
    doc="x where |x| > lambd, 0 elsewhere.", cuda="-lambd <= self && self <= lambd ? T(0) : self")
softshrink = elementwise(
    "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", inplace=False, namespace="nn.functional", method=False,
    d={"self": lambda g, self, lambd: shrink_backward(g, self, lambd)}, samples="distinct",
    doc="x moved towards 0 by lambd, and 0 within it.",
    cuda="lambd < self ? self - lambd : self < -lambd ? self + lambd : self * T(0)")

# --- smooth ones ------------------------------------------------------------------------------------------------------

sigmoid_backward = _slope(
    "sigmoid_backward(Tensor grad_output, Tensor output)",
    "grad_output * output * (1 - output): the gradient of sigmoid.",
    grad_output=lambda g, output: sigmoid_backward(g, output.conj()),
    output=lambda g, grad_output, output: mul_conj(mul_conj(grad_output, g), 1 - 2 * output),
    cuda="grad_output * conjugate(T(1) - output) * conjugate(output)")
sigmoid = elementwise(
    "sigmoid(Tensor self) -> Tensor", promote="int_to_float", aliases=("special.expit", "nn.functional.sigmoid"),
    d={"self": lambda g, result: sigmoid_backward(g, result)}, ref="scipy.special.expit", samples="reals",
    doc="1 / (1 + exp(-x)).\n\n>>> flambeau.sigmoid(flambeau.tensor([0.]))\ntensor([0.5000])", cuda="sigmoid_(self)")


def _silu_second(g, grad_output, self):
    s = self.sigmoid()
    return g * grad_output * s * (1 - s) * (2 + self * (1 - 2 * s))


silu_backward = _slope("silu_backward(Tensor grad_output, Tensor self)", "grad_output times the derivative of silu.",
                       grad_output=lambda g, self: silu_backward(g, self), self=_silu_second,
                       cuda="grad_output * sigmoid_(self) * (T(1) + self * (T(1) - sigmoid_(self)))")


def _silu_rule(g, self):
    if not self.is_complex():
        return silu_backward(g, self)
    s = self.sigmoid()
    return mul_conj(g, s * (1 + self * (1 - s)))


silu = _activation("silu(Tensor self, bool inplace=False)", _silu_rule, "x * sigmoid(x).",
                   cuda="self / (T(1) + exp(-self))")


def _mish_second(g, grad_output, self):
    """t + x s w with w = 1 - t^2, t = tanh(softplus(x)), s = sigmoid(x); t' = s w."""
    s, t = self.sigmoid(), softplus(self).tanh()
    w = 1 - t * t
    return g * grad_output * w * s * (2 + self * (1 - s) - 2 * self * t * s)


mish_backward = _slope("mish_backward(Tensor grad_output, Tensor self)", "grad_output times the derivative of mish.",
                       grad_output=lambda g, self: mish_backward(g, self), self=_mish_second,
                       cuda="grad_output * mish_slope(self)")
mish = _activation("mish(Tensor self, bool inplace=False)", lambda g, self: mish_backward(g, self),
                   "x * tanh(softplus(x)).", cuda="self * mish_ratio(self)")


def _gelu_second(g, grad_output, self, approximate):
    if approximate == "none":
        return g * grad_output * (2 - self * self) * ((self * self * -0.5).exp() / math.sqrt(2 * math.pi))
    a, b = math.sqrt(2 / math.pi), 0.044715
    t = (a * (self + b * self * self * self)).tanh()
    slope, w = a * (1 + 3 * b * self * self), 1 - t * t
    return g * grad_output * w * (slope - self * t * slope * slope + 3 * a * b * self * self)


gelu_backward = _slope(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none')",
    "grad_output times the derivative of gelu.", self=_gelu_second,
    grad_output=lambda g, self, approximate: gelu_backward(g, self, approximate=approximate),
    cuda="grad_output * (approximate == 't' ? gelu_tanh_slope(self) : gelu_erf_slope(self))")
gelu = elementwise(
    "gelu(Tensor self, *, str approximate='none') -> Tensor", namespace="nn.functional", method=False, inplace=False,
    d={"self": lambda g, self, approximate: gelu_backward(g, self, approximate=approximate)}, samples="reals",
    doc="x times the normal distribution's probability of less than x; approximate='tanh' is the cheaper formula.",
    cuda="approximate == 't' ? gelu_tanh(self) : gelu_erf(self)")


def _elu_second(g, grad_output, self, alpha, scale, input_scale):
    factor = alpha * scale * input_scale * input_scale
    return where(self > 0, 0.0, g * grad_output * (self * input_scale).exp() * factor)


elu_backward = _slope(
    "elu_backward(Tensor grad_output, Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)",
    "grad_output times the derivative of elu, selu or celu, by their parameters.", self=_elu_second,
    grad_output=lambda g, self, alpha, scale, input_scale: elu_backward(g, self, alpha, scale, input_scale),
    cuda="grad_output * elu_slope(self, alpha, scale, input_scale)")
elu = _activation("elu(Tensor self, Scalar alpha=1, bool inplace=False)",
                  lambda g, self, alpha: elu_backward(g, self, alpha, 1, 1),
                  "x where positive, alpha * (exp(x) - 1) elsewhere.",
                  "distinct", cuda="elu_(self, alpha, T(1), T(1))")
selu = elementwise(
    "selu(Tensor self, bool inplace=False) -> Tensor",
    node="EluBackward0", method=False, out=False, aliases=("nn.functional.selu",),
    d={"self": lambda g, self: elu_backward(g, self, 1.6732632423543772, 1.0507009873554805, 1)}, samples="distinct",
    doc="The self-normalising elu: scale 1.0507, alpha 1.6733.",
    cuda="elu_(self, T(1.6732632423543772848), T(1.0507009873554804934), T(1))")
celu = elementwise(
    "celu(Tensor self, Scalar alpha=1, bool inplace=False) -> Tensor", method=False, out=False,
    aliases=("nn.functional.celu",), d={"self": lambda g, self, alpha: elu_backward(g, self, alpha, 1, 1 / alpha)},
    samples="distinct", doc="x where positive, alpha * (exp(x / alpha) - 1) elsewhere: smooth for every alpha.",
    cuda="elu_(self, alpha, T(1), T(1) / alpha)")


def _softplus_second(g, grad_output, self, beta, threshold):
    s = (self * beta).sigmoid()
    return where(self * beta > threshold, 0.0, g * grad_output * s * (1 - s) * beta)


softplus_backward = _slope(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta=1, Scalar threshold=20)",
    "grad_output times the derivative of softplus.", self=_softplus_second,
    grad_output=lambda g, self, beta, threshold: softplus_backward(g, self, beta, threshold),
    cuda="grad_output * (threshold < self * beta ? T(1) : sigmoid_(self * beta))")
softplus = elementwise(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", namespace="nn.functional", method=False,
    inplace=False, d={"self": lambda g, self, beta, threshold: softplus_backward(g, self, beta, threshold)},
    samples="reals", doc="log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.",
    cuda="softplus_(self, beta, threshold)")


def _logsigmoid_second(g, grad_output, self):
    s = self.sigmoid()
    return -g * grad_output * s * (1 - s)


logsigmoid_backward = _slope(
    "logsigmoid_backward(Tensor grad_output, Tensor self)", "grad_output * sigmoid(-self).", self=_logsigmoid_second,
    grad_output=lambda g, self: logsigmoid_backward(g, self), cuda="grad_output * sigmoid_(-self)")
logsigmoid = elementwise(
    "logsigmoid(Tensor self) -> Tensor",
    node="LogSigmoidBackward0", namespace="nn.functional", method=False, inplace=False,
    d={"self": lambda g, self: logsigmoid_backward(g, self)}, samples="reals", doc="log(sigmoid(x)) without overflow.",
    cuda="(self < 0 ? self : T(0)) - log1p(exp(-fabs(self)))")

# --- composed of others -----------------------------------------------------------------------------------------------


@composite("softsign(Tensor self) -> Tensor", namespace="nn.functional", samples="distinct")
def softsign(self):
    """x / (1 + |x|)."""
    return self / (self.abs() + 1)


@composite("tanhshrink(Tensor self) -> Tensor", namespace="nn.functional", samples="reals")
def tanhshrink(self):
    """x - tanh(x)."""
    return self - self.tanh()


def _logit_rule(g, self):
    return where((self >= 0) & (self <= 1), g / (self * (1 - self)), math.nan)


_logit = elementwise("_logit(Tensor self) -> Tensor", node="LogitBackward0", namespace=None, inplace=False, out=False,
                     promote="int_to_float", d={"self": _logit_rule},
                     skip="the kernel of logit, reached through it", doc="log(self / (1 - self)) of real numbers.",
                     cuda="log(self / (T(1) - self))")


@composite("logit(Tensor self, float? eps=None) -> Tensor", inplace=True, out=True, ref="scipy.special.logit",
           samples=("reals", 0.1, 0.9), aliases=("special.logit",))
def logit(self, eps=None):
    """log(x / (1 - x)), the inverse of sigmoid; eps moves x into [eps, 1 - eps] first."""
    x = self
    if eps is not None:
        x = x if x.is_floating_point() or x.is_complex() else x * 1.0
        # where the bounds are the wrong way round, PyTorch asks for the lower one first
        x = where(x < eps, eps, x.clamp(max=1 - eps)) if eps > 0.5 else x.clamp(eps, 1 - eps)
    return (x / (1 - x)).log() if x.is_complex() else _logit(x)


def _gated_gradients(g, self, open, needs):
    return g * open if needs[0] else None, sigmoid_backward(g * self, open) if needs[1] else None


_gated = elementwise("_gated(Tensor self, Tensor gate) -> Tensor",
                     node="GluBackward0", namespace=None, inplace=False, out=False,
                     d={("self", "gate"): lambda g, self, gate, needs:
                        _gated_gradients(g, self, gate.sigmoid(), needs)},
                     skip="the kernel of glu, reached through it", doc="self * sigmoid(gate).",
                     cuda="self / (T(1) + exp(-gate))")


@composite("glu(Tensor self, int dim=-1) -> Tensor", namespace="nn.functional", samples="even_last")
def glu(self, dim=-1):
    """The first half along `dim` times the sigmoid of the second."""
    if self.ndim == 0:
        raise RuntimeError("glu: the tensor has no dimension to halve")
    dim = wrap_dim(dim, self.ndim, "glu")
    size = self.size(dim)
    if size % 2:
        raise RuntimeError(f"glu: dimension {dim} is halved, so its size must be even, got {size}")
    return _gated(*self.chunk(2, dim))


_leaky = elementwise("_leaky(Tensor self, Tensor slope) -> Tensor",
                     node="PreluKernelBackward0", namespace=None, inplace=False, out=False,
                     d={"self": lambda g, self, slope: where(self > 0, g, slope * g),
                        "slope": lambda g, self: where(self > 0, 0, self * g)},
                     skip="the kernel of prelu, reached through it", doc="self where positive, else slope * self.",
                     cuda="T(0) < self ? self : slope * self")


@composite("prelu(Tensor self, Tensor weight) -> Tensor",
           autocast="half", aliases=("nn.functional.prelu",), samples="prelu")
def prelu(self, weight):
    """x where positive, weight * x elsewhere, with one weight or one per channel (dimension 1)."""
    if weight.numel() != 1:
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.ndim != 1 or weight.numel() != channels:
            raise RuntimeError(f"prelu: weight must hold 1 number or one per channel, {channels}, in 1 dimension, got "
                               f"shape {list(weight.shape)}")
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(self.ndim)])
    elif weight.ndim:
        weight = weight.reshape([1] * self.ndim)
    return _leaky(self, weight)


@composite("rrelu(Tensor self, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
           "bool inplace=False) -> Tensor", method=False, inplace=True,
           aliases=("nn.functional.rrelu",), samples="distinct")
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, inplace=False):
    """leaky_relu with a random slope between lower and upper in training, their mean otherwise."""
    if lower > upper:
        raise RuntimeError(f"rrelu: lower must be at most upper, got {shown(lower)} and {shown(upper)}")
    if not training:
        return leaky_relu(self, (lower + upper) / 2, inplace)
    if not self.is_floating_point():
        raise NotImplementedError(f"rrelu: not implemented for {self.dtype}; convert with .float()")
    flat = self.detach() <= 0  # numbers are drawn for these only
    draws = self.new_empty((int(flat.sum()),), dtype=float64).uniform_(lower, upper).to(self.dtype)
    result = where(flat, self * self.new_empty(self.shape).masked_scatter(flat, draws), self)
    return self.copy_(result) if inplace else result
