"""Batch normalization on codes with relu after it."""

from ......_quantized.norms import batch_norm
from ....quantized.modules import batchnorm


class BNReLU2d(batchnorm.BatchNorm2d):
    """relu of a batch normalization of codes [n, channels, height, width].

    >>> import flambeau
    >>> layer = flambeau.ao.nn.intrinsic.quantized.BNReLU2d(1)
    >>> layer(flambeau.quantize_per_tensor(-flambeau.ones(1, 1, 1, 1), 1.0, 9, flambeau.quint8)).int_repr().item()
    0
    """

    _operator = staticmethod(batch_norm("batch_norm2d", relu=True))


class BNReLU3d(batchnorm.BatchNorm3d):
    """relu of a batch normalization of codes [n, channels, depth, height, width]."""

    _operator = staticmethod(batch_norm("batch_norm3d", relu=True))
