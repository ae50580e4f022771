"""What operators that are one step here are made of, for programs that ask for simpler ones (`get_decompositions`)."""

import math

import flambeau as fl


def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    return _weighted(self, fl.mm(mat1, mat2), beta, alpha)


def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return _weighted(self, fl.bmm(batch1, batch2), beta, alpha)


def _weighted(x, product, beta, alpha):
    product = product * alpha if alpha != 1 else product
    return product if beta == 0 else product + (x * beta if beta != 1 else x)


def silu(self, inplace=False):
    return self * fl.sigmoid(self)


def silu_backward(grad_output, self):
    s = fl.sigmoid(self)
    return grad_output * s * (1 + self * (1 - s))


def gelu(self, approximate="none"):
    if approximate == "tanh":
        return 0.5 * self * (1 + fl.tanh(math.sqrt(2 / math.pi) * (self + 0.044715 * self * self * self)))
    return 0.5 * self * (1 + fl.erf(self * math.sqrt(0.5)))


def gelu_backward(grad_output, self, *, approximate="none"):
    if approximate == "tanh":
        k = math.sqrt(2 / math.pi)
        t = fl.tanh(k * (self + 0.044715 * self * self * self))
        return grad_output * (0.5 * (1 + t) + 0.5 * self * (1 - t * t) * k * (1 + 3 * 0.044715 * self * self))
    density = fl.exp(self * self * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad_output * (0.5 * (1 + fl.erf(self * math.sqrt(0.5))) + self * density)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    return fl.clamp(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    return fl.clamp(input + 3, 0, 6) / 6


def hardswish(input, inplace=False):
    return input * fl.clamp(input + 3, 0, 6) / 6


def leaky_relu(input, negative_slope=0.01, inplace=False):
    return fl.where(input > 0, input, input * negative_slope)


def elu(input, alpha=1.0, scale=1.0, input_scale=1.0, inplace=False):
    return fl.where(input > 0, input * scale, fl.expm1(input * input_scale) * (alpha * scale))


def softplus(input, beta=1.0, threshold=20.0):
    return fl.where(input * beta > threshold, input, fl.log1p(fl.exp(input * beta)) / beta)


def mish(input, inplace=False):
    return input * fl.tanh(softplus(input))


def softmax(self, dim=None, dtype=None):
    self = self if dtype is None else self.to(dtype)
    e = fl.exp(self - fl.amax(self, (dim,), keepdim=True))
    return e / e.sum((dim,), keepdim=True)


def log_softmax(self, dim=None, dtype=None):
    self = self if dtype is None else self.to(dtype)
    shifted = self - fl.amax(self, (dim,), keepdim=True)
    return shifted - fl.log(fl.exp(shifted).sum((dim,), keepdim=True))


def addcmul(self, tensor1, tensor2, *, value=1):
    return self + (tensor1 * tensor2 if value == 1 else tensor1 * tensor2 * value)


def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + (tensor1 / tensor2 if value == 1 else tensor1 / tensor2 * value)


def lerp(self, end, weight):
    return self + (end - self) * weight


def rsub(self, other, alpha=1):
    return other - (self if alpha == 1 else self * alpha)


def sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output))


def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output)


def threshold_backward(grad_output, self, threshold=0):
    return fl.where(self <= threshold, 0, grad_output)


def masked_fill(self, mask, value):
    return fl.where(mask, value, self)


def xlogy(self, other):
    return fl.where(fl.isnan(other), float("nan"), fl.where(self == 0, 0, self * fl.log(other)))


def logaddexp(self, other):
    most, least = fl.maximum(self, other), fl.minimum(self, other)
    return fl.where(fl.isinf(self) & (self == other), self, most + fl.log1p(fl.exp(least - most)))


def frac(self):
    return self - fl.trunc(self)


def sinc(self):
    x = self * math.pi
    return fl.where(self == 0, 1, fl.sin(x) / x)


def stack(tensors, dim=0):
    return fl.cat([fl.unsqueeze(t, dim) for t in tensors], dim)


def dot(self, tensor):
    return (self * tensor).sum()


def mv(self, vec):
    return (self * vec).sum(dim=1)


#: {name of an operator: what it is made of}
RULES = {name: function for name, function in globals().items() if callable(function) and getattr(
    function, "__module__", "") == __name__ and name != "_weighted"}
