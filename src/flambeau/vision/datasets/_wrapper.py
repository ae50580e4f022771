"""Data sets for `transforms.v2`: their boxes and masks say what they are."""

import importlib

from ... import stack, tensor, uint8, zeros
from ..._shown import shown
from .. import tv_tensors
from ..transforms._kinds import is_pil, pillow
from ..transforms.v2 import functional as F
from .listed import OxfordIIITPet
from .marked import CelebA, CocoDetection, VOCDetection, VOCSegmentation
from .vision import VisionDataset

_VOC = ("__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike "
        "person pottedplant sheep sofa train tvmonitor").split()


def _coco(dataset, index, picture, marks, keys):
    """{boxes, labels, masks, image_id, …}; what is the same for all marks becomes one tensor."""
    keys = {"image_id", "boxes", "labels"} if keys is None else keys
    size = tuple(F.get_size(picture))
    found = {"image_id": dataset.ids[index]}
    if marks:
        found |= {name: [mark[name] for mark in marks if name in mark] for name in marks[0] if name != "image_id"}
    if "boxes" in keys:
        boxes = tensor([mark["bbox"] for mark in marks]).view(-1, 4)
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYWH", canvas_size=size)
        found["boxes"] = F.convert_bounding_box_format(boxes, new_format="XYXY")
    if "labels" in keys:
        found["labels"] = tensor([mark["category_id"] for mark in marks])
    if "masks" in keys:
        found["masks"] = _drawn(marks, size)
    return {name: found[name] for name in found if name in keys}


def _drawn(marks, size):
    """Polygons as masks; those that are run lengths need pycocotools."""
    image, draw = pillow("masks of polygons"), importlib.import_module("PIL.ImageDraw")
    masks = []
    for mark in marks:
        if not isinstance(mark["segmentation"], list):
            raise NotImplementedError("masks written as run lengths are read by pycocotools: decode them with it")
        canvas = image.new("L", size[::-1])
        for polygon in mark["segmentation"]:
            draw.Draw(canvas).polygon(polygon, fill=1)
        masks.append(F.pil_to_tensor(canvas)[0])
    return tv_tensors.Mask(stack(masks) if masks else zeros(0, *size, dtype=uint8))


def _voc_boxes(dataset, index, picture, target, keys):
    keys = {"annotation", "boxes", "labels"} if keys is None else keys
    marks = target["annotation"]["object"]
    found = {"annotation": target["annotation"]}
    if "boxes" in keys:
        boxes = [[int(mark["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")] for mark in marks]
        found["boxes"] = tv_tensors.BoundingBoxes(tensor(boxes).view(-1, 4), format="XYXY",
                                                  canvas_size=tuple(F.get_size(picture)))
    if "labels" in keys:
        found["labels"] = tensor([_VOC.index(mark["name"]) for mark in marks])
    return {name: found[name] for name in found if name in keys}


def _mask(dataset, index, picture, target, keys):
    return tv_tensors.Mask(target)


def _pet(dataset, index, picture, target, keys):
    parts = target if isinstance(target, tuple) else (target,)
    parts = tuple(tv_tensors.Mask(part) if is_pil(part) else part for part in parts)
    return parts if isinstance(target, tuple) else parts[0]


def _face(dataset, index, picture, target, keys):
    parts = target if isinstance(target, tuple) else (target,)
    size = tuple(F.get_size(picture))
    parts = tuple(tv_tensors.BoundingBoxes(part, format="XYWH", canvas_size=size) if kind == "bbox" else part
                  for kind, part in zip(dataset.target_type, parts, strict=True))
    return parts if isinstance(target, tuple) else parts[0]


_WAYS = {CocoDetection: _coco, VOCDetection: _voc_boxes, VOCSegmentation: _mask, OxfordIIITPet: _pet, CelebA: _face}


class _Wrapped(VisionDataset):
    """A data set whose samples say what they are, before its own transforms."""

    def __init__(self, dataset, keys):
        self._dataset, self._keys = dataset, keys
        self._transforms, dataset.transforms = dataset.transforms, None
        self._way = next((way for kind, way in _WAYS.items() if isinstance(dataset, kind)), None)

    def __getattr__(self, name):
        return getattr(self.__dict__["_dataset"], name)

    def __getitem__(self, index):
        picture, target = self._dataset[index]
        if self._way is not None:
            target = self._way(self._dataset, index, picture, target, self._keys)
        return (picture, target) if self._transforms is None else self._transforms(picture, target)

    def __len__(self):
        return len(self._dataset)

    def __repr__(self):
        return repr(self._dataset)


def wrap_dataset_for_transforms_v2(dataset, target_keys=None):
    """The data set with boxes and masks that say so; `target_keys` ("all" or a set) chooses what a target has."""
    if not isinstance(dataset, VisionDataset):
        raise TypeError(f"wrap_dataset_for_transforms_v2: a VisionDataset is needed, got {type(dataset).__name__}")
    if target_keys == "all":
        target_keys = _All()
    elif target_keys is not None and not isinstance(target_keys, (set, frozenset, list, tuple)):
        raise ValueError("wrap_dataset_for_transforms_v2: target_keys is a set of names, 'all' or None, "
                         f"got {shown(target_keys)}")
    return _Wrapped(dataset, target_keys)


class _All:
    """A set that has everything."""

    def __contains__(self, name):
        return True
