"""onnx.operators: functions of shapes that models for exporters are written with."""

import flambeau


def shape_as_tensor(x):
    """The shape of a tensor as a tensor of int64.

    >>> flambeau.onnx.operators.shape_as_tensor(flambeau.ones(2, 3))
    tensor([2, 3])
    """
    return flambeau._shape_as_tensor(x)


def reshape_from_tensor_shape(x, shape):
    """A tensor in the shape that another tensor holds."""
    return flambeau.reshape(x, shape.tolist())
