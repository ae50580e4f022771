"""Pictures for people: grids of images, image files, boxes, masks, keypoints and flow drawn in colour."""

import math
import pathlib

import flambeau
from flambeau._shown import shown

from ._drawing import draw_bounding_boxes as draw_bounding_boxes
from ._drawing import draw_keypoints as draw_keypoints
from ._drawing import draw_segmentation_masks as draw_segmentation_masks
from ._flow_colors import flow_to_image as flow_to_image
from ._pixels import pil_image

__all__ = ["draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "flow_to_image", "make_grid",
           "save_image"]


def _as_batch(tensor):
    """Images as [n, c, h, w]; grey ones get three channels."""
    if isinstance(tensor, (list, tuple)):
        if not all(isinstance(t, flambeau.Tensor) for t in tensor):
            raise TypeError(f"make_grid: expected a tensor or a list of tensors, got {shown(tensor)}")
        tensor = flambeau.stack(list(tensor))
    elif not isinstance(tensor, flambeau.Tensor):
        raise TypeError(f"make_grid: expected a tensor or a list of tensors, got {shown(tensor)}")
    if not 2 <= tensor.ndim <= 4:
        raise ValueError(f"make_grid: images have 2 to 4 dimensions, got shape {list(tensor.shape)}")
    while tensor.ndim < (3 if tensor.ndim == 2 else 4):
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 3:
        tensor = tensor.unsqueeze(0)
    return tensor.expand(-1, 3, -1, -1) if tensor.shape[1] == 1 else tensor


def _stretched(images, value_range):
    """The values from low to high, clamped, as 0 to 1."""
    low, high = value_range if value_range is not None else (float(images.min()), float(images.max()))
    return (images.clamp(low, high) - low) / max(high - low, 1e-5)


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """Images [n, c, h, w], or a list of them, as one picture with nrow of them in each row.

    normalize: values from value_range (default: smallest to largest) become 0 to 1, of each image by itself with
    scale_each. padding and pad_value: the width and the value of what is between them.

    >>> flambeau.vision.utils.make_grid(flambeau.rand(5, 3, 10, 12), nrow=3).shape
    torch.Size([3, 26, 44])
    """
    images = _as_batch(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError(f"make_grid: value_range must be a tuple (low, high), got {shown(value_range)}")
        parts = images.unbind(0) if scale_each else [images]
        parts = [_stretched(part, value_range) for part in parts]
        images = flambeau.stack(parts) if scale_each else parts[0]
    count, channels, height, width = images.shape
    if count == 1:
        return images.squeeze(0)
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    height, width = height + padding, width + padding
    grid = images.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for k, image in enumerate(images):
        y, x = k // columns * height + padding, k % columns * width + padding
        grid[:, y:y + height - padding, x:x + width - padding] = image
    return grid


def save_image(tensor, fp, format=None, **kwargs):
    """Writes an image, or several as the grid that make_grid(**kwargs) makes of them, to a file.

    fp: a path or a file; its ending decides about the format unless `format` does. Values are from 0 to 1.
    """
    grid = make_grid(tensor, **kwargs).detach().cpu()
    pixels = grid.mul(255).add(0.5).clamp(0, 255).to(flambeau.uint8)
    pil_image(pixels).save(fp if not isinstance(fp, pathlib.Path) else str(fp), format=format)
