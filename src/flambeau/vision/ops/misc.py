"""Blocks that many vision models are made of: convolution with norm and activation, gates, perceptrons."""

import warnings

import flambeau
from flambeau import nn


class FrozenBatchNorm2d(nn.Module):
    """Batch normalisation whose statistics and affine parameters are buffers: nothing in it is trained."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, flambeau.full((num_features,), value))

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        state_dict.pop(prefix + "num_batches_tracked", None)  # weights of an ordinary BatchNorm2d have a counter
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x):
        """x * scale + shift, one pair of numbers per channel."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self):
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


def _in_place(inplace):
    """The keyword for layers that may know none: only where it is said."""
    return {} if inplace is None else {"inplace": inplace}


def _same_padding(kernel_size, dilation):
    """What keeps the size at stride 1, per dimension where either argument has dimensions."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    n = len(dilation if isinstance(kernel_size, int) else kernel_size)
    kernels, dilations = ([x] * n if isinstance(x, int) else x for x in (kernel_size, dilation))
    return tuple((k - 1) // 2 * d for k, d in zip(kernels, dilations, strict=True))


class ConvNormActivation(nn.Sequential):
    """A convolution that keeps the size at stride 1, a norm and an activation; either may be None.

    bias=None: only without a norm. inplace is passed to the activation unless it is None.
    """

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU, dilation=1, inplace=True, bias=None,
                 conv_layer=nn.Conv2d):
        padding = _same_padding(kernel_size, dilation) if padding is None else padding
        layers = [conv_layer(in_channels, out_channels, kernel_size, stride, padding, dilation=dilation,
                             groups=groups, bias=norm_layer is None if bias is None else bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**_in_place(inplace)))
        super().__init__(*layers)
        self.out_channels = out_channels
        if type(self) is ConvNormActivation:
            warnings.warn("ConvNormActivation leaves the number of dimensions open; Conv2dNormActivation and "
                          "Conv3dNormActivation say it", stacklevel=2)


class Conv2dNormActivation(ConvNormActivation):
    """Conv2d, BatchNorm2d, ReLU: each replaceable, the last two removable.

    >>> block = flambeau.vision.ops.Conv2dNormActivation(3, 8, kernel_size=5, stride=2)
    >>> block(flambeau.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 8, 16, 16])
    """

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU, dilation=1, inplace=True, bias=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
                         activation_layer, dilation, inplace, bias, nn.Conv2d)


class Conv3dNormActivation(ConvNormActivation):
    """The same of videos: Conv3d, BatchNorm3d, ReLU."""

    def __init__(self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
                 norm_layer=nn.BatchNorm3d, activation_layer=nn.ReLU, dilation=1, inplace=True, bias=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
                         activation_layer, dilation, inplace, bias, nn.Conv3d)


class SqueezeExcitation(nn.Module):
    """Channels weighted by what the whole picture shows (Hu et al. 2018): input * gate(mean over the picture)."""

    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def _scale(self, input):
        squeezed = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(squeezed))

    def forward(self, input):
        return self._scale(input) * input


class MLP(nn.Sequential):
    """Linear layers of the given widths; between them norm, activation and dropout, after the last one dropout."""

    def __init__(self, in_channels, hidden_channels, norm_layer=None, activation_layer=nn.ReLU, inplace=None,
                 bias=True, dropout=0.0):
        layers, width = [], in_channels
        for k, wider in enumerate(hidden_channels, 1):
            layers.append(nn.Linear(width, wider, bias=bias))
            if k < len(hidden_channels):
                layers += [norm_layer(wider)] if norm_layer is not None else []
                layers.append(activation_layer(**_in_place(inplace)))
            layers.append(nn.Dropout(dropout, **_in_place(inplace)))
            width = wider
        super().__init__(*layers)


class Permute(nn.Module):
    """`x.permute(dims)` as a layer."""

    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return flambeau.permute(x, self.dims)
