"""Convolutions with batch norm, ReLU or both, for quantization-aware training."""

from flambeau import nn
from flambeau.nn.utils.fusion import fuse_conv_bn_weights

from ....qat import modules as qat
from ....qat.modules._fake_weight import conv_arguments
from ... import modules as fused
from ._batch_norm import FoldedBatchNorm


class _ConvBn(FoldedBatchNorm):
    _FLOAT_CONV_MODULE = None
    _FUSED_FLOAT_MODULE = None  #: what `to_float` makes of the folded convolution; None: a plain convolution

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None,
                 padding_mode="zeros", eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        super().__init__(in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation,
                         groups=groups, bias=bool(bias), padding_mode=padding_mode)
        self._take_batch_norm(out_channels, eps, momentum, freeze_bn)
        self._take_qconfig(qconfig)
        self._start()

    def _multiplied(self, input, weight, bias):
        return self._conv_forward(input, weight, bias)

    def forward(self, input):
        return self._folded(input)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for training of a fused float one, which has a `qconfig`; it trains the same parameters.

        A layer for training has observed nothing yet, so `use_precomputed_fake_quant` has nothing to change.
        """
        cls._checked(mod)
        conv, bn = mod[0], mod[1]
        made = cls(**conv_arguments(conv), eps=bn.eps, momentum=bn.momentum, qconfig=mod.qconfig)
        made._share(conv)
        made._share_batch_norm(bn)
        return made

    def to_float(self):
        """The float convolution with the batch norm folded in, and the ReLU."""
        conv = self._FLOAT_CONV_MODULE(**{**conv_arguments(self), "bias": True})
        bias = None if self.bias is None else self.bias.detach()
        bn = self.bn
        conv.weight, conv.bias = fuse_conv_bn_weights(self.weight.detach(), bias, bn.running_mean, bn.running_var,
                                                      bn.eps, bn.weight.detach(), bn.bias.detach())
        made = conv if self._FUSED_FLOAT_MODULE is None else self._FUSED_FLOAT_MODULE(conv, nn.ReLU())
        return made.train(self.training)


class _ConvBnReLU(_ConvBn):
    def forward(self, input):
        return nn.functional.relu(self._folded(input))


class ConvBn1d(_ConvBn, nn.Conv1d, fused._FusedModule):
    """A Conv1d with its BatchNorm1d folded into a weight that passes through its codes."""

    _FLOAT_MODULE = fused.ConvBn1d
    _FLOAT_CONV_MODULE = nn.Conv1d
    _FLOAT_BN_MODULE = nn.BatchNorm1d


class ConvBn2d(_ConvBn, nn.Conv2d, fused._FusedModule):
    """A Conv2d with its BatchNorm2d folded into a weight that passes through its codes.

    >>> import flambeau
    >>> aoq = flambeau.ao.quantization
    >>> layer = flambeau.ao.nn.intrinsic.qat.ConvBn2d(1, 2, 3, qconfig=aoq.get_default_qat_qconfig("x86"))
    >>> layer(flambeau.randn(2, 1, 4, 4)).shape
    torch.Size([2, 2, 2, 2])
    """

    _FLOAT_MODULE = fused.ConvBn2d
    _FLOAT_CONV_MODULE = nn.Conv2d
    _FLOAT_BN_MODULE = nn.BatchNorm2d


class ConvBn3d(_ConvBn, nn.Conv3d, fused._FusedModule):
    """A Conv3d with its BatchNorm3d folded into a weight that passes through its codes."""

    _FLOAT_MODULE = fused.ConvBn3d
    _FLOAT_CONV_MODULE = nn.Conv3d
    _FLOAT_BN_MODULE = nn.BatchNorm3d


class ConvBnReLU1d(_ConvBnReLU, ConvBn1d):
    """A ConvBn1d for training, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvBnReLU1d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = fused.ConvReLU1d


class ConvBnReLU2d(_ConvBnReLU, ConvBn2d):
    """A ConvBn2d for training, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvBnReLU2d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = fused.ConvReLU2d


class ConvBnReLU3d(_ConvBnReLU, ConvBn3d):
    """A ConvBn3d for training, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvBnReLU3d
    _FLOAT_RELU_MODULE = nn.ReLU
    _FUSED_FLOAT_MODULE = fused.ConvReLU3d


class _ConvReLU:
    def forward(self, input):
        return nn.functional.relu(self._conv_forward(input, self._faked_weight(), self.bias))

    def to_float(self):
        """The float convolution with the weights as they are now, and the ReLU."""
        return self._FLOAT_MODULE(super().to_float(), nn.ReLU()).train(self.training)


class ConvReLU1d(_ConvReLU, qat.Conv1d, fused._FusedModule):
    """A Conv1d whose weight passes through its codes, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvReLU1d
    _FLOAT_RELU_MODULE = nn.ReLU


class ConvReLU2d(_ConvReLU, qat.Conv2d, fused._FusedModule):
    """A Conv2d whose weight passes through its codes, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvReLU2d
    _FLOAT_RELU_MODULE = nn.ReLU


class ConvReLU3d(_ConvReLU, qat.Conv3d, fused._FusedModule):
    """A Conv3d whose weight passes through its codes, and the ReLU after it."""

    _FLOAT_MODULE = fused.ConvReLU3d
    _FLOAT_RELU_MODULE = nn.ReLU
