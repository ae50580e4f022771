"""What every transform of v2 does: take a sample apart, draw once, change what it knows how to, put it together."""

from enum import Enum

from ...._shown import shown
from ....nn import Module
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .. import _draws
from .._kinds import channels_of, is_pil, size_of
from .functional._dispatch import found, is_pure_tensor

_PICTURES = (tv_tensors.Image, tv_tensors.Video)
_SIZED = (*_PICTURES, tv_tensors.Mask, tv_tensors.BoundingBoxes, tv_tensors.KeyPoints)


def is_picture(value):
    """Whether it is a picture: an Image, a Video, a Pillow image, or a tensor that does not say what it is."""
    return isinstance(value, _PICTURES) or is_pil(value) or is_pure_tensor(value)


def check_type(obj, types_or_checks):
    """Whether it is of one of the types, or one of the functions says yes."""
    return any(isinstance(obj, one) if isinstance(one, type) else one(obj) for one in types_or_checks)


def has_any(flat_inputs, *types_or_checks):
    """Whether one of the inputs is of one of the types."""
    return any(check_type(value, types_or_checks) for value in flat_inputs)


def has_all(flat_inputs, *types_or_checks):
    """Whether each type is found among the inputs."""
    return all(any(check_type(value, (one,)) for value in flat_inputs) for one in types_or_checks)


def _only(values, what):
    if not values:
        raise TypeError(f"no {what} was found in the sample")
    if len(set(values)) > 1:
        raise ValueError(f"the sample has {what}s of several sizes: {', '.join(map(str, sorted(set(values))))}")
    return values[0]


def query_chw(flat_inputs):
    """(channels, height, width) that all pictures of the sample have."""
    return _only([(channels_of(v), *size_of(v)) for v in flat_inputs if is_picture(v)], "picture")


def query_size(flat_inputs):
    """(height, width) that everything in the sample has."""
    sizes = [tuple(v.canvas_size) if hasattr(v, "canvas_size") else tuple(size_of(v))
             for v in flat_inputs if is_picture(v) or isinstance(v, _SIZED)]
    return _only(sizes, "size")


def _first(flat_inputs, kind, what):
    for value in flat_inputs:
        if isinstance(value, kind):
            return value
    raise ValueError(f"no {what} were found in the sample")


def get_bounding_boxes(flat_inputs):
    """The first boxes of the sample."""
    return _first(flat_inputs, tv_tensors.BoundingBoxes, "BoundingBoxes")


def get_keypoints(flat_inputs):
    """The first points of the sample."""
    return _first(flat_inputs, tv_tensors.KeyPoints, "KeyPoints")


class Transform(Module):
    """To make one: write `transform(inpt, params)`, and `make_params(flat_inputs)` if something is drawn per sample."""

    _transformed_types = (is_pure_tensor, is_pil, tv_tensors.TVTensor)

    def check_inputs(self, flat_inputs):
        """Raise if the sample is none for this transform."""

    def make_params(self, flat_inputs):
        """What is drawn once for the whole sample."""
        return {}

    def transform(self, inpt, params):
        """One part of the sample, changed."""
        raise NotImplementedError(f"{type(self).__name__}.transform is missing: it says what becomes of one input")

    def _call_kernel(self, functional, inpt, *args, **kwargs):
        """The operation, or the input itself where the operation has nothing to do with such."""
        return inpt if found(functional, inpt) is None else functional(inpt, *args, **kwargs)

    def forward(self, *inputs):
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        wanted = self._wanted(flat)
        params = self.make_params([value for value, yes in zip(flat, wanted, strict=True) if yes])
        return tree_unflatten([self.transform(value, params) if yes else value
                               for value, yes in zip(flat, wanted, strict=True)], spec)

    def _wanted(self, flat):
        """Which inputs are changed: a plain tensor only if it is the first, and nothing says that it is a picture."""
        pure = not has_any(flat, *_PICTURES, is_pil)
        wanted = []
        for value in flat:
            yes = check_type(value, self._transformed_types)
            if yes and is_pure_tensor(value):
                yes, pure = pure, False
            wanted.append(yes)
        return wanted

    def extra_repr(self):
        shown_types = (bool, int, float, str, tuple, list, Enum)
        return ", ".join(f"{name}={value}" for name, value in vars(self).items()
                         if not name.startswith("_") and name != "training" and isinstance(value, shown_types))


class RandomlyApplied(Transform):
    """Done with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, got {shown(p)}")
        self.p = p

    def forward(self, *inputs):
        flat, spec = tree_flatten(inputs if len(inputs) > 1 else inputs[0])
        self.check_inputs(flat)
        if not _draws.chance(self.p):
            return tree_unflatten(flat, spec)
        wanted = self._wanted(flat)
        params = self.make_params([value for value, yes in zip(flat, wanted, strict=True) if yes])
        return tree_unflatten([self.transform(value, params) if yes else value
                               for value, yes in zip(flat, wanted, strict=True)], spec)


def fills(fill, where):
    """{kind: fill} of one fill for all or of a dict by kind; "others" is the rest."""
    table = fill if isinstance(fill, dict) else {"others": fill}
    for value in table.values():
        if value is not None and not isinstance(value, (int, float, list, tuple)):
            raise TypeError(f"{where}: fill must be a number, one per channel, None, or a dict of them by kind, "
                            f"got {shown(value)}")
    return table


def fill_for(table, inpt):
    """The fill of this input's kind."""
    if type(inpt) in table:
        return table[type(inpt)]
    for kind, fill in table.items():
        if isinstance(kind, type) and isinstance(inpt, kind):
            return fill
    return table.get("others", 0)
