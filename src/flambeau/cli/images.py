"""Reads the image for `flambeau predict` from several file formats into one small grey array."""

from pathlib import Path

import numpy

from . import digits, mnist
from .errors import UserError, reason
from .idx import read_idx


def read_image(text, task, size):
    """(as the network sees it: float32 [size, size] in 0..1, bright ink on black; as it was read), from `FILE`,
    `FILE:N` or `digits:N`."""
    name, _, index = text.rpartition(":")
    if not (name and index.isdecimal()) or Path(text).exists():
        name, index = text, None
    else:
        index = int(index)
    if name == "digits" and index is not None:
        image, scale = pick(digits.read_digits()[0], index, text), digits.SCALE
    else:
        image, scale = read_file(Path(name), index, digits.SCALE if task == "digits" else mnist.SCALE)
    image = image.astype(numpy.float32) / numpy.float32(scale)
    return (image if image.shape == (size, size) else fit(image, size, text)), image


def pick(images, index, text):
    if not 0 <= index < len(images):
        raise UserError(f"{text}: image {index} of {len(images)} does not exist")
    return images[index]


def read_file(path, index, scale):
    """A grey picture and its brightest value."""
    if not path.is_file():
        raise UserError(f"{path}: no such image")
    if path.suffix == ".npy":
        image = read_npy(path)
        if image.dtype.kind == "f":
            scale = 1
        elif image.max(initial=0) > scale:
            scale = 255
    elif "idx" in path.name:
        image, scale = read_idx(path), 255
    else:
        image, scale = read_with_pillow(path), 255
    if image.ndim == 3:
        if index is None:
            raise UserError(f"{path}: it holds {len(image)} images: choose one, as in {path}:0")
        image = pick(image, index, f"{path}:{index}")
    elif index is not None:
        raise UserError(f"{path}:{index}: the file holds one image, not several")
    if image.ndim != 2 or image.size == 0:
        raise UserError(f"{path}: expected an image of two dimensions, got sizes {list(image.shape)}")
    return image, scale


def read_npy(path):
    try:
        image = numpy.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: not a .npy file, or a damaged one: {reason(error)}") from error
    if image.dtype.kind not in "buif" or not numpy.isfinite(image).all():
        raise UserError(f"{path}: expected finite numbers, got {image.dtype}")
    return image


def read_with_pillow(path):
    image_module = pillow(path)
    try:
        with image_module.open(path) as picture:
            grey = numpy.asarray(picture.convert("L"))
    except (OSError, ValueError, SyntaxError, image_module.DecompressionBombError) as error:
        raise UserError(f"{path}: not an image, or a damaged one: {reason(error)}") from error
    paper = int(numpy.median(grey))
    if paper <= 127:
        return grey
    # drawn or photographed: dark ink on bright paper, where the training images have bright ink on black
    return (paper - numpy.minimum(grey, paper)).astype(numpy.uint8)


def pillow(path):
    try:
        from PIL import Image  # an optional dependency
    except ImportError as error:
        raise UserError(f"{path}: this needs pillow (pip install 'flambeau[plot]')") from error
    return Image


def fit(image, size, text):
    """Scale the ink to fill the middle five sevenths of a size x size picture, as MNIST's makers did."""
    image_module = pillow(text)
    ink = image > 0.2 * image.max(initial=0)
    if not ink.any():
        raise UserError(f"{text}: the image is empty")
    rows, columns = numpy.flatnonzero(ink.any(1)), numpy.flatnonzero(ink.any(0))
    image = image[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1]
    inner = size if size < 20 else round(size * 5 / 7)
    scale = inner / max(image.shape)
    height, width = (max(1, round(n * scale)) for n in image.shape)
    small = image_module.fromarray(image).resize((width, height), image_module.Resampling.BOX)
    small = numpy.asarray(small)
    result = numpy.zeros((size, size), numpy.float32)
    top, left = (size - height) // 2, (size - width) // 2
    result[top:top + height, left:left + width] = small / max(float(small.max()), 1e-6)
    return result
