"""Deformable convolution: every kernel position reads where an offset moves it."""

import math

import flambeau
from flambeau import nn
from flambeau.nn.modules.utils import _pair


def deform_conv2d(input, offset, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), mask=None):
    """A convolution of input [n, c, h, w] whose kernel positions are moved by offset, and scaled by mask if given
    (Dai et al. 2017; Zhu et al. 2019).

    offset: [n, 2 * groups * kh * kw, oh, ow], for each kernel position first the rows, then the columns by which it is
    moved; mask: [n, groups * kh * kw, oh, ow]. The number of these groups, and that of the weight [o, c / g, kh, kw],
    follow from the shapes.

    >>> x, weight = flambeau.ones(1, 1, 3, 3), flambeau.ones(1, 1, 1, 1)
    >>> flambeau.vision.ops.deform_conv2d(x, flambeau.full((1, 2, 3, 3), 0.5), weight)
    tensor([[[[1.0000, 1.0000, 0.5000],
              [1.0000, 1.0000, 0.5000],
              [0.5000, 0.5000, 0.2500]]]])
    """
    outputs, channels, rows, columns = weight.shape
    groups = offset.shape[1] // (2 * rows * columns)
    if groups == 0:
        raise RuntimeError(f"deform_conv2d: a kernel of {rows}x{columns} needs offsets with a multiple of "
                           f"{2 * rows * columns} channels, got {offset.shape[1]}")
    if bias is None:
        bias = input.new_zeros(outputs)
    return flambeau.ops.torchvision.deform_conv2d(
        input, weight, offset, input.new_zeros(1) if mask is None else mask, bias, *_pair(stride), *_pair(padding),
        *_pair(dilation), input.shape[1] // channels, groups, mask is not None)


class DeformConv2d(nn.Module):
    """`deform_conv2d` with a weight and a bias of its own; offset and mask are arguments of the call."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True):
        super().__init__()
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"DeformConv2d: {name} must be a multiple of groups={groups}, got {count}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.weight = nn.Parameter(flambeau.empty(out_channels, in_channels // groups, *self.kernel_size))
        if bias:
            self.bias = nn.Parameter(flambeau.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """New weights, drawn as those of Conv2d."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input, offset, mask=None):
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def __repr__(self):
        said = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, usual in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            value = getattr(self, name)
            said += [f"{name}={value}"] if value != usual else []
        said += ["bias=False"] if self.bias is None else []
        return f"{type(self).__name__}({', '.join(said)})"
