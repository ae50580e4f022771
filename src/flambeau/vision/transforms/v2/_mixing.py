"""Transforms (v2) of batches that mix each picture, and its label, with the one before it."""

import math

from .... import Tensor
from ....distributions.bounded import Beta
from ....nn.functional import one_hot
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .. import _draws
from .._kinds import is_pil
from ._samples import labels_by
from ._transform import Transform, is_picture, query_size
from .functional._dispatch import is_pure_tensor


class _Mixed(Transform):
    """Draws how much of the other picture is taken, from Beta(alpha, alpha)."""

    def __init__(self, *, alpha=1.0, num_classes=None, labels_getter="default"):
        super().__init__()
        self.alpha, self.num_classes = float(alpha), num_classes
        self._beta = Beta(self.alpha, self.alpha)
        self._find_labels = labels_by(labels_getter, type(self).__name__)

    def forward(self, *inputs):
        inputs = inputs if len(inputs) > 1 else inputs[0]
        flat, spec = tree_flatten(inputs)
        if any(is_pil(v) or isinstance(v, (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints))
               for v in flat):
            raise ValueError(f"{type(self).__name__}: batches of pictures as tensors are mixed; Pillow images, boxes, "
                             "masks and points cannot be")
        labels = self._find_labels(inputs)
        self._check(labels)
        wanted = self._pictures(flat, labels)
        params = {"labels": labels, "batch": labels.shape[0], **self.make_params(wanted)}
        mixed = {id(value) for value in [*wanted, labels]}
        return tree_unflatten([self.transform(v, params) if id(v) in mixed else v for v in flat], spec)

    def _check(self, labels):
        if not isinstance(labels, Tensor):
            raise ValueError(f"{type(self).__name__}: labels must be a tensor, got {type(labels).__name__}")
        if labels.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: labels are numbers [batch] or rows [batch, classes], "
                             f"got shape {list(labels.shape)}")
        if labels.dim() == 1 and self.num_classes is None:
            raise ValueError(f"{type(self).__name__}: num_classes must be given for labels that are numbers")
        if labels.dim() == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(f"{type(self).__name__}: num_classes is {self.num_classes}, the labels have "
                             f"{labels.shape[-1]} columns")

    def _pictures(self, flat, labels):
        """The batches of pictures: those that say so, or the first plain tensor."""
        found = [v for v in flat if isinstance(v, (tv_tensors.Image, tv_tensors.Video))] or \
            [v for v in flat if is_pure_tensor(v) and v is not labels and is_picture(v)][:1]
        for value in found:
            least = 5 if isinstance(value, tv_tensors.Video) else 4
            if value.dim() != least or value.shape[0] != labels.shape[0]:
                raise ValueError(f"{type(self).__name__}: a batch of pictures has {least} dimensions and a label each, "
                                 f"got shape {list(value.shape)} and {labels.shape[0]} labels")
        return found

    def _mixed_labels(self, labels, part):
        if labels.dim() == 1:
            labels = one_hot(labels, num_classes=self.num_classes)
        labels = labels if labels.is_floating_point() else labels.float()
        return labels.roll(1, 0).mul_(1.0 - part).add_(labels.mul(part))


class MixUp(_Mixed):
    """The weighted mean of two pictures and of their labels (Zhang et al. 2018)."""

    def make_params(self, flat_inputs):
        return {"part": float(self._beta.sample(()))}

    def transform(self, inpt, params):
        part = params["part"]
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, part)
        values = inpt.as_subclass(Tensor)
        if not values.is_floating_point():
            raise ValueError(f"MixUp: pictures must be floats, got {values.dtype}")
        return tv_tensors.wrap(values.roll(1, 0).mul_(1.0 - part).add_(values.mul(part)), like=inpt)


class CutMix(_Mixed):
    """A window of the other picture, and the label by areas (Yun et al. 2019)."""

    def make_params(self, flat_inputs):
        part = float(self._beta.sample(()))
        height, width = query_size(flat_inputs)
        x, y = _draws.whole(0, width), _draws.whole(0, height)
        half = 0.5 * math.sqrt(1.0 - part)
        across, down = int(half * width), int(half * height)
        x1, y1 = max(x - across, 0), max(y - down, 0)
        x2, y2 = min(x + across, width), min(y + down, height)
        return {"window": (x1, y1, x2, y2), "part": 1.0 - (x2 - x1) * (y2 - y1) / (width * height)}

    def transform(self, inpt, params):
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, params["part"])
        x1, y1, x2, y2 = params["window"]
        values = inpt.as_subclass(Tensor)
        output = values.clone()
        output[..., y1:y2, x1:x2] = values.roll(1, 0)[..., y1:y2, x1:x2]
        return tv_tensors.wrap(output, like=inpt)


