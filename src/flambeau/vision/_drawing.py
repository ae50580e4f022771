"""Boxes, masks and keypoints drawn into an image, each object in a colour of its own."""

import math
import warnings

import flambeau
from flambeau._shown import shown

from ._pixels import pil_image, pillow, pixels_of

#: default colours: object k has k times these, modulo 255, which are far apart
_PALETTE = (2 ** 25 - 1, 2 ** 15 - 1, 2 ** 21 - 1)
_DASH = 5  # pixels
_FILL = 100  # opacity, of 255, of a filled box


def _check_image(name, image, channels):
    if not isinstance(image, flambeau.Tensor):
        raise TypeError(f"{name}: image must be a tensor, got {shown(image)}")
    if image.dtype != flambeau.uint8 and not image.is_floating_point():
        raise ValueError(f"{name}: the image must be uint8 or floating point, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError(f"{name}: expected one image [channels, height, width], got shape {list(image.shape)}")
    if image.shape[0] not in channels:
        raise ValueError(f"{name}: the image must have {' or '.join(map(str, channels))} channels, got "
                         f"{image.shape[0]}")


def _colors(name, given, count):
    """One colour (red, green, blue) for each of `count` objects."""
    if given is None:
        given = [tuple(k * p % 255 for p in _PALETTE) for k in range(count)]
    elif isinstance(given, list):
        if len(given) < count:
            raise ValueError(f"{name}: {count} objects need as many colors, got {len(given)}")
    elif isinstance(given, (str, tuple)):
        given = [given] * count
    else:
        raise ValueError(f"{name}: colors must be a color, a list of colors or None, got {shown(given)}")
    find = pillow("ImageColor").getrgb
    return [find(c) if isinstance(c, str) else c for c in given]


def _as_bytes(image):
    if image.dtype != flambeau.uint8:
        image = (image * 255.999).to(flambeau.uint8)  # each byte gets an equal part of 0 to 1
    return image.expand(3, -1, -1) if image.shape[0] == 1 else image


def _like(drawn, image):
    """Drawn bytes in the dtype of the image that was given."""
    return drawn if image.dtype == flambeau.uint8 else drawn.to(image.dtype) * (1 / 255)


def _labels(name, labels, count):
    if labels is None:
        return [None] * count
    if len(labels) != count:
        raise ValueError(f"{name}: every box needs a label (None for none), got {len(labels)} labels for {count} boxes")
    return labels


def _font(font, font_size):
    fonts = pillow("ImageFont")
    if font is not None:
        return fonts.truetype(font=font, size=font_size or 10)
    if font_size is not None:
        warnings.warn("draw_bounding_boxes: font_size changes nothing without a font; pass font= as well", stacklevel=4)
    return fonts.load_default()


def _write(draw, at, label, font, color, background):
    """The label, on a rectangle of colour `background` unless that is None."""
    if background is not None:
        left, top, right, bottom = draw.textbbox(at, label, font=font)
        draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=background)
    draw.text(at, label, fill=color, font=font)


def _turned_box(draw, box, color, width, tint):
    """Four corners joined by lines; the first side is dashed, so that one sees how the box is turned."""
    if tint is not None:
        draw.polygon(box, fill=tint)
    first, second, third, fourth = zip(box[::2], box[1::2], strict=True)
    draw.line([second, third, fourth, first], fill=color, width=width)
    length = math.dist(first, second)
    for start in range(0, math.ceil(length), 2 * _DASH):
        ends = [start / length, min((start + _DASH) / length, 1)]
        draw.line([tuple(int(a + (b - a) * t) for a, b in zip(first, second, strict=True)) for t in ends],
                  fill=color, width=width)


def draw_bounding_boxes(image, boxes, labels=None, colors=None, fill=False, width=1, font=None, font_size=None,
                        label_colors=None, label_background_colors=None, fill_labels=False):
    """The image [1 or 3, h, w] with boxes [n, 4] (two corners) or [n, 8] (four corners, the first side dashed).

    colors: one for all or a list, as names, "#rrggbb" or (red, green, blue). fill: the boxes are tinted. labels: text
    at the first corners, in label_colors (default: the boxes'); with fill_labels in black on label_background_colors
    (default: the boxes'). font, font_size: a TrueType file and its size. Coordinates are rounded down.

    >>> image = flambeau.zeros(3, 8, 8, dtype=flambeau.uint8)
    >>> flambeau.vision.utils.draw_bounding_boxes(image, flambeau.tensor([[1, 2, 6, 5]]), colors="red")[0, 2]
    tensor([  0, 255, 255, 255, 255, 255, 255,   0], dtype=torch.uint8)
    """
    name = "draw_bounding_boxes"
    _check_image(name, image, (1, 3))
    count = boxes.shape[0]
    if count == 0:
        warnings.warn(f"{name}: boxes is empty, so nothing is drawn", stacklevel=2)
        return image
    if boxes.shape[-1] == 4 and ((boxes[:, 0] > boxes[:, 2]) | (boxes[:, 1] > boxes[:, 3])).any():
        raise ValueError(f"{name}: boxes must be [x1, y1, x2, y2] with x1 <= x2 and y1 <= y2; ops.box_convert changes "
                         "other formats into this one")
    labels = _labels(name, labels, count)
    colors = _colors(name, colors, count)
    texts = _colors(name, label_colors, count) if label_colors is not None else ["black"] * count if fill_labels \
        else colors
    grounds = colors if label_background_colors is None else _colors(name, label_background_colors, count)
    picture = pil_image(_as_bytes(image))
    draw = pillow("ImageDraw").Draw(picture, "RGBA" if fill else None)
    font = _font(font, font_size)
    for box, color, label, text, ground in zip(boxes.long().tolist(), colors, labels, texts, grounds, strict=False):
        tint = (*color[:3], _FILL) if fill else None
        if len(box) == 4:
            draw.rectangle(box, width=width, outline=color, fill=tint)
        else:
            _turned_box(draw, box, color, width, tint)
        if label is not None:
            _write(draw, (box[0] + width + 1, box[1] + width + 1), label, font, text, ground if fill_labels else None)
    return _like(pixels_of(picture), image)


def draw_segmentation_masks(image, masks, alpha=0.8, colors=None):
    """The image [3, h, w] with masks [n, h, w] or [h, w] (bool) laid over it; where two meet, in black.

    alpha: 0 shows the image alone, 1 the masks alone. colors: as in draw_bounding_boxes.
    """
    name = "draw_segmentation_masks"
    _check_image(name, image, (3,))
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.ndim != 3:
        raise ValueError(f"{name}: masks must have shape [h, w] or [n, h, w], got {list(masks.shape)}")
    if masks.dtype != flambeau.bool:
        raise ValueError(f"{name}: masks must be bool, got {masks.dtype}; compare them, as in masks > 0.5")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError(f"{name}: the masks are {list(masks.shape[-2:])}, the image {list(image.shape[-2:])}")
    count = masks.shape[0]
    if count == 0:
        warnings.warn(f"{name}: masks is empty, so nothing is drawn", stacklevel=2)
        return image
    layer = image.clone()
    for mask, color in zip(masks, _colors(name, colors, count), strict=False):
        value = flambeau.tensor(color[:3], dtype=flambeau.uint8)
        layer[:, mask] = (value if image.dtype == flambeau.uint8 else value / 255).to(image.dtype)[:, None]
    layer[:, masks.sum(0) > 1] = 0
    mixed = image * (1 - alpha) + layer * alpha
    return mixed.to(image.dtype)


def _check_keypoints(name, keypoints, visibility):
    if keypoints.ndim != 3 or keypoints.shape[-1] not in (2, 3):
        raise ValueError(f"{name}: keypoints must have shape [instances, K, 2], got {list(keypoints.shape)}")
    if visibility is None:
        return flambeau.ones(keypoints.shape[:-1], dtype=flambeau.bool)
    if visibility.ndim == 3 and visibility.shape[-1] == 1:
        visibility = visibility.squeeze(-1)
    if visibility.shape != keypoints.shape[:2]:
        raise ValueError(f"{name}: visibility must have shape {list(keypoints.shape[:2])}, like the keypoints; got "
                         f"{list(visibility.shape)}")
    return visibility


def draw_keypoints(image, keypoints, connectivity=None, colors=None, radius=2, width=3, visibility=None):
    """The image [3, h, w] with keypoints [instances, K, 2] as discs, and white lines between connected pairs.

    colors: one colour (a name, "#rrggbb" or a tuple) for all discs. visibility: [instances, K], zero for points that
    are not drawn, nor lines to them.
    """
    name = "draw_keypoints"
    _check_image(name, image, (3,))
    seen = _check_keypoints(name, keypoints, visibility)
    picture = pil_image(_as_bytes(image))
    draw = pillow("ImageDraw").Draw(picture)
    for points, shows in zip(keypoints.long().tolist(), seen.tolist(), strict=True):
        for (x, y, *_), show in zip(points, shows, strict=True):
            if show:
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colors, outline=None, width=0)
        for a, b in connectivity or ():
            if shows[a] and shows[b]:
                draw.line((*points[a][:2], *points[b][:2]), width=width)
    return _like(pixels_of(picture), image)
