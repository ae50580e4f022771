"""Converts the weights of convolutions to another memory format and leaves the rest of the model as it is."""

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


def _convert(module, layers, memory_format):
    for layer in module.modules() if not isinstance(module, layers) else [module]:
        if isinstance(layer, layers):
            layer.weight.data = layer.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """The weights of Conv2d and ConvTranspose2d in `memory_format`; returns the module.

    >>> import flambeau
    >>> m = flambeau.nn.Conv2d(2, 3, 3)
    >>> m = flambeau.nn.utils.convert_conv2d_weight_memory_format(m, flambeau.channels_last)
    >>> m.weight.is_contiguous(memory_format=flambeau.channels_last)
    True
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """The weights of Conv3d and ConvTranspose3d in `memory_format`; returns the module."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
