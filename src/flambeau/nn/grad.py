"""Gradients of convolutions by name: of the input from its size, of the weight from its size."""

import flambeau

from ..ops.kinds import OPS


def _gradient(wanted, size, known, grad_output, options):
    """The gradient of a convolution for the operand whose size is given, the other one being known."""
    stride, padding, dilation, groups = options
    unknown = flambeau.zeros((), dtype=known.dtype, device=known.device).expand(size)
    operands = (unknown, known) if wanted == "input" else (known, unknown)
    found = OPS["convolution_backward"](grad_output, *operands, None, stride, padding, dilation, False, [0], groups,
                                        (wanted == "input", wanted == "weight", False))
    return found[wanted == "weight"]


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d for its input.

    >>> from flambeau.nn import grad
    >>> grad.conv1d_input((1, 1, 3), flambeau.ones(1, 1, 2), flambeau.ones(1, 1, 2)).tolist()
    [[[1.0, 2.0, 1.0]]]
    """
    return _gradient("input", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv1d for its weight."""
    return _gradient("weight", weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d for its input."""
    return _gradient("input", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv2d for its weight."""
    return _gradient("weight", weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d for its input."""
    return _gradient("input", input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of conv3d for its weight."""
    return _gradient("weight", weight_size, input, grad_output, (stride, padding, dilation, groups))
