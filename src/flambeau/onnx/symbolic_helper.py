"""onnx.symbolic_helper: what programs use to say how their operators are written."""


def parse_args(*arg_descriptors):
    """Decorator that says of what kind each argument is: the function is returned as it is, since tensors arrive as
    values and everything else as Python's own numbers, texts and lists.

    >>> import flambeau
    >>> @flambeau.onnx.symbolic_helper.parse_args("v", "f")
    ... def scaled(g, x, factor):
    ...     return g.op("Mul", x, g.scalar(factor, x.dtype))
    """
    return lambda fn: fn
