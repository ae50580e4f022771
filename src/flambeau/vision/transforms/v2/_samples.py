"""Transforms (v2) of what inputs are kept in, and of boxes and points as such."""

from .... import Tensor, dtype, float32
from ...._shown import shown
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .._containers import check_linear, linear
from .._convert import is_array
from .._kinds import is_pil
from ..functional import to_tensor
from . import functional as F
from ._transform import Transform, get_bounding_boxes, get_keypoints, is_picture
from .functional._boxes import clamping_of, format_of


class ToImage(Transform):
    """Tensors, Pillow images and arrays [height, width, channels] as Image."""

    _transformed_types = (F.is_pure_tensor, is_pil, is_array)

    def transform(self, inpt, params):
        return F.to_image(inpt)


class PILToTensor(Transform):
    """Pillow images as tensors of their own values."""

    _transformed_types = (is_pil,)

    def transform(self, inpt, params):
        return F.pil_to_tensor(inpt)


class ToTensor(Transform):
    """Pillow images and arrays as float tensors of 0 to 1, as ToImage and ToDtype(scale=True) do."""

    _transformed_types = (is_pil, is_array)

    def transform(self, inpt, params):
        return to_tensor(inpt)


class ToPILImage(Transform):
    """Tensors and arrays as Pillow images."""

    _transformed_types = (F.is_pure_tensor, tv_tensors.Image, is_array)

    def __init__(self, mode=None):
        super().__init__()
        self.mode = mode

    def transform(self, inpt, params):
        return F.to_pil_image(inpt.as_subclass(Tensor) if isinstance(inpt, Tensor) else inpt, mode=self.mode)


class ToPureTensor(Transform):
    """Everything that says what it is as a plain tensor."""

    _transformed_types = (tv_tensors.TVTensor,)

    def transform(self, inpt, params):
        return inpt.as_subclass(Tensor)


class ToDtype(Transform):
    """Another dtype, for pictures or by kind ({Image: float32, Mask: int64, "others": None})."""

    _transformed_types = (Tensor,)

    def __init__(self, dtype, scale=False):
        super().__init__()
        if not isinstance(dtype, (dict, _DTYPE)):
            raise ValueError(f"ToDtype: a dtype or a dict of dtypes by kind is needed, got {shown(dtype)}")
        self.dtype, self.scale = dtype, scale

    def transform(self, inpt, params):
        wanted = self._for(inpt)
        if wanted is None:
            return inpt
        return F.to_dtype(inpt, dtype=wanted, scale=self.scale and is_picture(inpt))

    def _for(self, inpt):
        if not isinstance(self.dtype, dict):
            return self.dtype if is_picture(inpt) else None
        for kind, wanted in self.dtype.items():
            if kind != "others" and isinstance(inpt, kind) and (kind is not Tensor or F.is_pure_tensor(inpt)):
                return wanted
        if "others" in self.dtype:
            return self.dtype["others"]
        if is_picture(inpt) and self.scale:
            raise ValueError(f"ToDtype: the dict says nothing of {type(inpt).__name__}, which scale=True would change; "
                             "add it, or \"others\"")
        return None


_DTYPE = dtype


class ConvertImageDtype(Transform):
    """Pictures in another dtype, white staying white."""

    def __init__(self, dtype=float32):
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt, params):
        return F.to_dtype(inpt, dtype=self.dtype, scale=True) if is_picture(inpt) and not is_pil(inpt) else inpt


class Identity(Transform):
    """Nothing is changed."""

    def transform(self, inpt, params):
        return inpt


class Lambda(Transform):
    """Runs a function on everything, or on what is of the given types."""

    def __init__(self, lambd, *types):
        super().__init__()
        self.lambd, self.types = lambd, types or (object,)
        self._transformed_types = self.types

    def transform(self, inpt, params):
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def extra_repr(self):
        name = getattr(self.lambd, "__name__", "")
        return ", ".join([*([name] if name else []), f"types={[kind.__name__ for kind in self.types]}"])


class LinearTransformation(Transform):
    """Pictures as one row of numbers, minus a mean, times a square matrix: whitening."""

    _transformed_types = (F.is_pure_tensor, tv_tensors.Image, tv_tensors.Video)

    def __init__(self, transformation_matrix, mean_vector):
        super().__init__()
        check_linear(transformation_matrix, mean_vector)
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def check_inputs(self, flat_inputs):
        if any(is_pil(value) for value in flat_inputs):
            raise TypeError("LinearTransformation: Pillow images are not taken; ToImage makes a tensor of them")

    def transform(self, inpt, params):
        values = linear(inpt.as_subclass(Tensor), self.transformation_matrix, self.mean_vector)
        return tv_tensors.wrap(values, like=inpt)


class UniformTemporalSubsample(Transform):
    """That many frames of a film, at equal distances."""

    def __init__(self, num_samples):
        super().__init__()
        self.num_samples = num_samples

    def transform(self, inpt, params):
        return self._call_kernel(F.uniform_temporal_subsample, inpt, self.num_samples)


class ConvertBoundingBoxFormat(Transform):
    """Boxes with other numbers."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, format):
        super().__init__()
        self.format = format_of(format)

    def transform(self, inpt, params):
        return F.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform):
    """Boxes kept on the canvas; "auto" takes the boxes' own mode."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode="auto"):
        super().__init__()
        self.clamping_mode = clamping_of(clamping_mode, ("auto",))

    def transform(self, inpt, params):
        return F.clamp_bounding_boxes(inpt, clamping_mode=self.clamping_mode)


class ClampKeyPoints(Transform):
    """Points kept on the canvas."""

    _transformed_types = (tv_tensors.KeyPoints,)

    def transform(self, inpt, params):
        return F.clamp_keypoints(inpt)


class SetClampingMode(Transform):
    """Says how boxes are clamped from now on."""

    _transformed_types = (tv_tensors.BoundingBoxes,)

    def __init__(self, clamping_mode):
        super().__init__()
        self.clamping_mode = clamping_of(clamping_mode)

    def transform(self, inpt, params):
        return tv_tensors.wrap(inpt.as_subclass(Tensor).clone(), like=inpt, clamping_mode=self.clamping_mode)


def labels_by(getter, where):
    """A function that finds a sample's labels: given, by a key, by a key that contains "label", or none."""
    if callable(getter):
        return getter
    if getter == "default":
        return _by_likely_key
    if isinstance(getter, str):
        return lambda inputs: _mapping(inputs)[getter]
    if getter is None:
        return lambda inputs: None
    raise ValueError(f"{where}: labels_getter must be a function, a key, 'default' or None, got {shown(getter)}")


def _mapping(inputs):
    inputs = inputs[1] if isinstance(inputs, (tuple, list)) and len(inputs) > 1 else inputs
    if not isinstance(inputs, dict):
        raise ValueError(f"the labels are looked for in a dict, or in a dict at the second place, got "
                         f"{type(inputs).__name__}; pass a labels_getter")
    return inputs


def _by_likely_key(inputs):
    if isinstance(inputs, (tuple, list)) and len(inputs) > 1 and isinstance(inputs[1], Tensor):
        return inputs[1]
    inputs = _mapping(inputs)
    names = [key for key in inputs if isinstance(key, str)]
    found = next((key for key in names if key.lower() == "labels"), None) \
        or next((key for key in names if "label" in key.lower()), None)
    if found is None:
        raise ValueError(f"no key with 'label' in {shown(list(inputs))}; pass a labels_getter")
    return inputs[found]


class _Sanitizing(Transform):
    """Leaves out marks that are not good, with their labels and masks."""

    def __init__(self, labels_getter):
        super().__init__()
        self.labels_getter = labels_getter
        self._find_labels = labels_by(labels_getter, type(self).__name__)

    def forward(self, *inputs):
        inputs = inputs if len(inputs) > 1 else inputs[0]
        labels = self._find_labels(inputs)
        labels = labels if isinstance(labels, (tuple, list)) else () if labels is None else (labels,)
        flat, spec = tree_flatten(inputs)
        marks, keep = self._judge(flat)
        for label in labels:
            if not isinstance(label, Tensor) or len(label) != len(keep):
                raise ValueError(f"{type(self).__name__}: labels must be tensors with {len(keep)} rows, one per mark, "
                                 f"got {shown(label)}")
        follows = {id(label) for label in labels} | {id(marks)}
        return tree_unflatten([self._kept(value, keep, id(value) in follows) for value in flat], spec)

    def _kept(self, value, keep, follows):
        masks = isinstance(value, tv_tensors.Mask) and self._masks_follow and value.dim() == 3 \
            and value.shape[0] == len(keep)
        if not (follows or masks):
            return value
        return tv_tensors.wrap(value.as_subclass(Tensor)[keep], like=value)


class SanitizeBoundingBoxes(_Sanitizing):
    """Leaves out boxes that are too small or not on the picture, with their labels and masks."""

    _masks_follow = True

    def __init__(self, min_size=1.0, min_area=1.0, labels_getter="default"):
        super().__init__(labels_getter)
        if min_size < 1 or min_area < 1:
            raise ValueError(f"SanitizeBoundingBoxes: min_size and min_area are at least 1, got {shown(min_size)} and "
                             f"{shown(min_area)}")
        self.min_size, self.min_area = min_size, min_area

    def _judge(self, flat):
        boxes = get_bounding_boxes(flat)
        return boxes, F.sanitize_bounding_boxes(boxes, min_size=self.min_size, min_area=self.min_area)[1]


class SanitizeKeyPoints(_Sanitizing):
    """Leaves out points (or groups of them) that are not on the picture, with their labels."""

    _masks_follow = False

    def __init__(self, labels_getter=None):
        super().__init__(labels_getter)

    def _judge(self, flat):
        points = get_keypoints(flat)
        return points, F.sanitize_keypoints(points)[1]
