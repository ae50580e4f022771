"""What detectors ask of images and targets before they begin, and of weights of older versions."""

import flambeau
from flambeau._shown import shown


def image_sizes(images):
    """(height, width) of each image."""
    for image in images:
        if image.ndim < 2:
            raise AssertionError(f"detection: an image has shape [channels, height, width], got {list(image.shape)}")
    return [tuple(image.shape[-2:]) for image in images]


def check_targets(images, targets):
    """In training every image needs a dict with "boxes" [n, 4]."""
    if targets is None:
        raise AssertionError("detection: in training mode, targets are needed: a dict with boxes and labels per image; "
                             "call .eval() first to detect")
    if len(targets) != len(images):
        raise AssertionError(f"detection: {len(images)} images need as many targets, got {len(targets)}")
    for target in targets:
        boxes = target["boxes"]
        if not isinstance(boxes, flambeau.Tensor):
            raise AssertionError(f"detection: the boxes of a target must be a tensor, got {shown(boxes)}")
        if boxes.ndim != 2 or boxes.shape[-1] != 4:
            raise AssertionError(f"detection: the boxes of a target must have shape [n, 4], got {list(boxes.shape)}")


def check_boxes(targets):
    """No box may be without width or height."""
    for k, target in enumerate(targets):
        boxes = target["boxes"]
        bad = (boxes[:, 2:] <= boxes[:, :2]).any(1)
        if bad.any():
            first = boxes[bad][0].tolist()
            raise AssertionError(f"detection: boxes are [x1, y1, x2, y2] with x1 < x2 and y1 < y2; target {k} has "
                                 f"{first}")


def rename(state_dict, prefix, names):
    """Gives entries of older versions their names of today, in place: {old: new}, below the prefix."""
    for old, new in names.items():
        if prefix + old in state_dict:
            state_dict[prefix + new] = state_dict.pop(prefix + old)


def older(local_metadata):
    """Whether the entries were written before blocks of convolution, norm and activation were modules."""
    return (local_metadata.get("version") or 1) < 2
