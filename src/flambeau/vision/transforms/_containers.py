"""Transforms (v1) that hold others, and those that change only what a picture is kept in."""

import random

from ... import rand
from ..._shown import shown
from ...nn import Module, ModuleList
from . import functional as F


class Compose:
    """Runs transforms one after the other."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, img):
        for change in self.transforms:
            img = change(img)
        return img

    def __repr__(self):
        return _listed(self, self.transforms)


def _listed(owner, transforms, first=(), after=""):
    lines = [*first, *(f"    {change}" for change in transforms)]
    return "\n".join([f"{type(owner).__name__}(", *lines, f"){after}"])


class RandomTransforms:
    """What transforms with a choice among others have in common."""

    def __init__(self, transforms):
        if not isinstance(transforms, (list, tuple, ModuleList)):
            raise TypeError(f"{type(self).__name__}: transforms must be a sequence, got {type(transforms).__name__}")
        self.transforms = transforms

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no __call__; a subclass says what is done")

    def __repr__(self):
        return _listed(self, self.transforms)


class RandomApply(Module):
    """Runs all of the transforms with probability p, or none."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img):
        if self.p < rand(1):
            return img
        for change in self.transforms:
            img = change(img)
        return img

    def __repr__(self):
        return _listed(self, self.transforms, [f"    p={self.p}"])


class RandomOrder(RandomTransforms):
    """Runs the transforms in an order drawn from Python's `random`."""

    def __call__(self, img):
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for k in order:
            img = self.transforms[k](img)
        return img


class RandomChoice(RandomTransforms):
    """Runs one of the transforms, drawn from Python's `random` with the weights p."""

    def __init__(self, transforms, p=None):
        super().__init__(transforms)
        if p is not None and not isinstance(p, (list, tuple)):
            raise TypeError(f"RandomChoice: p must be a sequence of weights, got {shown(p)}")
        self.p = p

    def __call__(self, *args):
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self):
        return _listed(self, self.transforms, after=f"(p={self.p})")


class ToTensor:
    """A Pillow image or array [height, width, channels] as a float tensor [channels, height, width] of 0 to 1."""

    def __call__(self, pic):
        return F.to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class PILToTensor:
    """A Pillow image as a tensor of its own values."""

    def __call__(self, pic):
        return F.pil_to_tensor(pic)

    def __repr__(self):
        return f"{type(self).__name__}()"


class ToPILImage:
    """A tensor [channels, height, width] or array [height, width, channels] as a Pillow image."""

    def __init__(self, mode=None):
        self.mode = mode

    def __call__(self, pic):
        return F.to_pil_image(pic, self.mode)

    def __repr__(self):
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class ConvertImageDtype(Module):
    """Another dtype, white staying white."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, image):
        return F.convert_image_dtype(image, self.dtype)


class Lambda:
    """Runs a function."""

    def __init__(self, lambd):
        if not callable(lambd):
            raise TypeError(f"Lambda: a function is needed, got {type(lambd).__name__}")
        self.lambd = lambd

    def __call__(self, img):
        return self.lambd(img)

    def __repr__(self):
        return f"{type(self).__name__}()"


class Normalize(Module):
    """(tensor - mean) / std, per channel."""

    def __init__(self, mean, std, inplace=False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor):
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self):
        return f"{type(self).__name__}(mean={self.mean}, std={self.std})"


class LinearTransformation(Module):
    """The picture as one row of numbers, minus a mean, times a square matrix: whitening."""

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        check_linear(transformation_matrix, mean_vector)
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor):
        return linear(tensor, self.transformation_matrix, self.mean_vector)

    def __repr__(self):
        return (f"{type(self).__name__}(transformation_matrix={self.transformation_matrix.tolist()}, "
                f"mean_vector={self.mean_vector.tolist()})")


def check_linear(matrix, mean):
    """ValueError unless the matrix is square and the mean has its size."""
    if matrix.shape[0] != matrix.shape[1] or mean.shape[0] != matrix.shape[0]:
        raise ValueError(f"LinearTransformation: a square matrix and a mean of its size are needed, "
                         f"got {list(matrix.shape)} and {list(mean.shape)}")


def linear(tensor, matrix, mean):
    """[..., c, h, w] through the matrix."""
    flat = tensor.shape[-3] * tensor.shape[-2] * tensor.shape[-1]
    if flat != matrix.shape[0]:
        raise ValueError(f"LinearTransformation: the picture has {flat} values ({list(tensor.shape)}) and the matrix "
                         f"is {list(matrix.shape)}")
    return ((tensor.reshape(-1, flat) - mean) @ matrix).reshape(tensor.shape)
