"""Images and targets made ready for a detector, and its results put back into the images' own pixels."""

import math

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

from ._masks import paste_masks_in_image
from .image_list import ImageList


def _ratios(original_size, new_size):
    """New pixels per old one, of the height and the width, in float32 as the boxes are."""
    return [flambeau.tensor(new, dtype=flambeau.float32) / flambeau.tensor(old, dtype=flambeau.float32)
            for new, old in zip(new_size, original_size, strict=True)]


def resize_boxes(boxes, original_size, new_size):
    """Boxes [n, 4] of an image that gets another size."""
    down, right = (r.to(boxes.device) for r in _ratios(original_size, new_size))
    x1, y1, x2, y2 = boxes.unbind(1)
    return flambeau.stack([x1 * right, y1 * down, x2 * right, y2 * down], 1)


def resize_keypoints(keypoints, original_size, new_size):
    """Keypoints [n, k, 3] (x, y, visibility) of an image that gets another size."""
    down, right = (r.to(keypoints.device) for r in _ratios(original_size, new_size))
    scaled = keypoints.clone()
    scaled[..., 0] *= right
    scaled[..., 1] *= down
    return scaled


def _resize_image_and_masks(image, self_min_size, self_max_size, target=None, fixed_size=None):
    """The image with its shorter side at min_size, or its longer one at max_size if that is less; masks with it."""
    if fixed_size is not None:
        how = {"size": (fixed_size[1], fixed_size[0])}
    else:
        height, width = image.shape[-2:]
        scale = min(self_min_size / min(height, width), self_max_size / max(height, width))
        how = {"scale_factor": scale, "recompute_scale_factor": True}
    image = F.interpolate(image[None], **how, mode="bilinear", align_corners=False)[0]
    if target is not None and "masks" in target:
        target["masks"] = F.interpolate(target["masks"][:, None].float(), **how)[:, 0].byte()
    return image, target


class GeneralizedRCNNTransform(nn.Module):
    """Normalises images, resizes them with their targets, and puts them into one batch.

    min_size: of the shorter side; of several sizes, training draws one and inference takes the last. max_size: of the
    longer side. size_divisible: batches are padded to multiples of this. fixed_size: (width, height) for every image.
    """

    def __init__(self, min_size, max_size, image_mean, image_std, size_divisible=32, fixed_size=None, **kwargs):
        super().__init__()
        self.min_size = tuple(min_size) if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size, self.image_mean, self.image_std = max_size, image_mean, image_std
        self.size_divisible, self.fixed_size = size_divisible, fixed_size
        self._skip_resize = kwargs.pop("_skip_resize", False)
        if kwargs:
            raise TypeError(f"GeneralizedRCNNTransform: unknown arguments {', '.join(kwargs)}")

    def forward(self, images, targets=None):
        """(ImageList, targets): the batch, and copies of the targets in its pixels."""
        images = list(images)
        targets = None if targets is None else [dict(target) for target in targets]
        for k, image in enumerate(images):
            if image.ndim != 3:
                raise ValueError(f"detection: images are tensors [channels, height, width], got {list(image.shape)}")
            images[k], target = self.resize(self.normalize(image), None if targets is None else targets[k])
            if targets is not None:
                targets[k] = target
        sizes = [tuple(image.shape[-2:]) for image in images]
        return ImageList(self.batch_images(images, self.size_divisible), sizes), targets

    def normalize(self, image):
        """(image - mean) / std, channel by channel."""
        if not image.is_floating_point():
            raise TypeError(f"detection: images must be floating point, from 0 to 1; got {image.dtype}: divide bytes "
                            "by 255")
        mean, std = (flambeau.as_tensor(v, dtype=image.dtype, device=image.device)
                     for v in (self.image_mean, self.image_std))
        return (image - mean[:, None, None]) / std[:, None, None]

    def torch_choice(self, k):
        """One of the numbers, drawn."""
        return k[int(flambeau.empty(1).uniform_(0.0, float(len(k))).item())]

    def resize(self, image, target=None):
        """The image and its target in the size that the detector works at."""
        if self.training and self._skip_resize:
            return image, target
        size = self.torch_choice(self.min_size) if self.training else self.min_size[-1]
        old = image.shape[-2:]
        image, target = _resize_image_and_masks(image, size, self.max_size, target, self.fixed_size)
        if target is not None:
            target["boxes"] = resize_boxes(target["boxes"], old, image.shape[-2:])
            if "keypoints" in target:
                target["keypoints"] = resize_keypoints(target["keypoints"], old, image.shape[-2:])
        return image, target

    def max_by_axis(self, the_list):
        """The largest of each position."""
        return [max(sizes) for sizes in zip(*the_list, strict=True)]

    def batch_images(self, images, size_divisible=32):
        """The images in one tensor, zeros below and to the right of the smaller ones."""
        channels, *sides = self.max_by_axis([list(image.shape) for image in images])
        sides = [math.ceil(side / size_divisible) * size_divisible for side in sides]
        batch = images[0].new_zeros((len(images), channels, *sides))
        for place, image in zip(batch, images, strict=True):
            place[:image.shape[0], :image.shape[1], :image.shape[2]] = image
        return batch

    def postprocess(self, result, image_shapes, original_image_sizes):
        """The results with boxes, masks and keypoints in the pixels of the original images."""
        if self.training:
            return result
        for found, size, original in zip(result, image_shapes, original_image_sizes, strict=True):
            found["boxes"] = resize_boxes(found["boxes"], size, original)
            if "masks" in found:
                found["masks"] = paste_masks_in_image(found["masks"], found["boxes"], original)
            if "keypoints" in found:
                found["keypoints"] = resize_keypoints(found["keypoints"], size, original)
        return result

    def __repr__(self):
        return (f"{type(self).__name__}(\n    Normalize(mean={self.image_mean}, std={self.image_std})\n"
                f"    Resize(min_size={self.min_size}, max_size={self.max_size}, mode='bilinear')\n)")
