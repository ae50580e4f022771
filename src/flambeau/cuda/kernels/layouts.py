"""Tensors whose channels come first or last: which of the two an operand is in, in place or copied."""

from .launches import row_major, tensor


def last_strides(shape):
    """Strides of [batch, channels, …] where the channels lie last."""
    moved = row_major((shape[0], *shape[2:], shape[1]))
    return [moved[0], moved[-1], *moved[1:-1]]


def lies(info, strides):
    return all(size == 1 or a == b for size, a, b in zip(info.shape, info.strides, strides, strict=True))


def channels_last(info):
    """Whether the channels lie last, and that is not the order of rows too."""
    return lies(info, last_strides(info.shape)) and not lies(info, row_major(info.shape))


class Placed:
    """An operand in one of the two orders, in place or copied: its parameter, strides and alignment."""

    def __init__(self, build, name, info, last, written=False):
        self.info, self.strides = info, last_strides(info.shape) if last else row_major(info.shape)
        own = lies(info, self.strides)
        self.alignment = build.size(info) if own and not info.aligned else 16
        if own:
            self.parameter = tensor(name, info, build.call.name, written)
        else:
            self.parameter = (build.output_as if written else build.input_as)(name, info, self.strides)

    def described(self, name):
        """The constants that describe it, with four dimensions at least."""
        shape, strides = list(self.info.shape), list(self.strides)
        if len(shape) == 3:
            shape.insert(2, 1)
            strides.insert(2, shape[3] * strides[2])
        return {name: tuple(shape), f"{name}_strides": tuple(strides), f"{name}_alignment": self.alignment}
