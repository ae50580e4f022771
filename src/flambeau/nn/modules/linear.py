"""Layers that multiply by a weight matrix."""

import math

from ... import empty
from ..._shown import shown
from .. import functional as F
from .. import init
from ..parameter import Parameter
from ._repr import fields
from .module import Module


class Identity(Module):
    """Returns its input; takes and ignores any constructor arguments, to stand in for another layer.

    >>> import flambeau
    >>> flambeau.nn.Identity()(flambeau.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, input):
        return input


class Linear(Module):
    """x @ weight.T + bias, for x [*, in_features]; weight [out_features, in_features].

    Weight and bias start uniform in ±1/sqrt(in_features).

    >>> import flambeau
    >>> flambeau.nn.Linear(4, 2)(flambeau.zeros(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        init._uniform_bias_(self.bias, self.weight)

    def forward(self, input):
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self):
        return fields(self, "in_features out_features", bias=self.bias is not None)


class Bilinear(Module):
    """y_k = x1 · W_k · x2 + b_k, for x1 [*, in1_features] and x2 [*, in2_features].

    >>> import flambeau
    >>> flambeau.nn.Bilinear(2, 3, 4)(flambeau.ones(5, 2), flambeau.ones(5, 3)).shape
    torch.Size([5, 4])
    """

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {shown(in1_features)}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weight and bias anew, uniform in ±1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1, input2):
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self):
        return fields(self, "in1_features in2_features out_features", bias=self.bias is not None)
