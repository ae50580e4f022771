"""Picture files: bytes of a file into pixels, pixels into bytes of a file."""

import enum
import io
import os

import flambeau
from flambeau._shown import shown

from .._pixels import pil_image, pillow, pixels_of


class ImageReadMode(enum.Enum):
    """Which channels a decoded picture has; UNCHANGED: those of the file."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


#: mode -> Pillow's
_MODES = {ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB",
          ImageReadMode.RGB_ALPHA: "RGBA"}
#: Pillow's modes whose pixels are bytes as they are; of others, what they become
_PLAIN = ("L", "LA", "RGB", "RGBA")
_BECOME = {"1": "L", "P": "RGB", "PA": "RGBA", "CMYK": "RGB", "YCbCr": "RGB", "HSV": "RGB", "LAB": "RGB"}
_SIXTEEN = ("I;16", "I;16B", "I;16L", "I;16N", "I")


# --- files ------------------------------------------------------------------------------------------------------------

def read_file(path):
    """The bytes of a file, as a uint8 tensor [n]."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    return flambeau.frombuffer(data, dtype=flambeau.uint8) if data else flambeau.empty(0, dtype=flambeau.uint8)


def write_file(filename, data):
    """Writes a uint8 tensor [n] to a file."""
    with open(filename, "wb") as file:
        file.write(_bytes("write_file", data))


def _bytes(name, data):
    if not isinstance(data, flambeau.Tensor) or data.dtype != flambeau.uint8 or data.ndim != 1:
        came = f"{data.dtype} {list(data.shape)}" if isinstance(data, flambeau.Tensor) else shown(data)
        raise RuntimeError(f"{name}: expected the bytes of a file, a uint8 tensor with one dimension; got {came}")
    return data.contiguous().numpy().tobytes()


# --- decoding ---------------------------------------------------------------------------------------------------------

def _mode(mode):
    try:
        return ImageReadMode[mode.upper()] if isinstance(mode, str) else ImageReadMode(mode)
    except (KeyError, ValueError):
        raise ValueError(f"mode: expected one of {', '.join(ImageReadMode.__members__)}; got {shown(mode)}") from None


def _opened(name, data, formats):
    """The picture in the bytes, if it is of one of these formats."""
    data = _bytes(name, data)
    try:
        picture = pillow("Image").open(io.BytesIO(data), formats=formats)
        picture.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise RuntimeError(f"{name}: {len(data)} bytes that begin with {shown(data[:8])} are not a whole picture in "
                           f"{' or '.join(formats)}: {error}") from error
    return picture


def _sixteen(picture, mode):
    """The values of a grey picture with 16 bits, which keeps them unless other channels are asked for."""
    width, height = picture.size
    values = flambeau.frombuffer(bytearray(picture.convert("I").tobytes()), dtype=flambeau.int32)
    values = values.reshape(1, height, width)
    if mode in (ImageReadMode.UNCHANGED, ImageReadMode.GRAY):
        return values.to(flambeau.uint16)
    alpha = flambeau.full_like(values, 65535)
    grey = [values] * (3 if mode in (ImageReadMode.RGB, ImageReadMode.RGB_ALPHA) else 1)
    return flambeau.cat(grey + ([alpha] if mode.name.endswith("ALPHA") else [])).to(flambeau.uint16)


def _decoded(picture, mode, orient):
    if orient:
        picture = pillow("ImageOps").exif_transpose(picture)
    if picture.mode in _SIXTEEN:
        return _sixteen(picture, mode)
    wanted = _MODES.get(mode)
    if wanted is None and picture.mode not in _PLAIN:
        wanted = _BECOME.get(picture.mode, "RGB")
        if picture.mode == "P" and "transparency" in picture.info:
            wanted = "RGBA"
    return pixels_of(picture if wanted in (None, picture.mode) else picture.convert(wanted))


def _frames(picture):
    """All frames of an animation in RGB: [3, h, w] of one, [n, 3, h, w] of several."""
    found = []
    for k in range(getattr(picture, "n_frames", 1)):
        picture.seek(k)
        found.append(pixels_of(picture.convert("RGB")))
    return found[0] if len(found) == 1 else flambeau.stack(found)


def decode_image(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """The pixels [c, h, w] of a JPEG, PNG, GIF, WebP or AVIF picture: uint8, or uint16 for a PNG with 16 bits.

    input: the bytes of a file (uint8 tensor) or its path. mode: which channels, an ImageReadMode or its name.
    apply_exif_orientation: turned as the camera was. A GIF is RGB in any mode, with several frames [n, 3, h, w].
    """
    data = input if isinstance(input, flambeau.Tensor) else read_file(input)
    picture = _opened("decode_image", data, ("JPEG", "PNG", "GIF", "WEBP", "AVIF"))
    if picture.format == "GIF":
        return _frames(picture)
    return _decoded(picture, _mode(mode), apply_exif_orientation)


def read_image(path, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """`decode_image` of the file at `path`."""
    return decode_image(read_file(path), mode, apply_exif_orientation)


def decode_jpeg(input, mode=ImageReadMode.UNCHANGED, device="cpu", apply_exif_orientation=False):
    """The pixels of a JPEG picture, given as the bytes of its file; of a list of them, a list."""
    if isinstance(input, (list, tuple)):
        return [decode_jpeg(data, mode, device, apply_exif_orientation) for data in input]
    return _decoded(_opened("decode_jpeg", input, ("JPEG",)), _mode(mode), apply_exif_orientation).to(device)


def decode_png(input, mode=ImageReadMode.UNCHANGED, apply_exif_orientation=False):
    """The pixels of a PNG picture, given as the bytes of its file: uint8, or uint16 where it has 16 bits."""
    return _decoded(_opened("decode_png", input, ("PNG",)), _mode(mode), apply_exif_orientation)


def decode_gif(input):
    """The frames of a GIF, given as the bytes of its file: [3, h, w], or [n, 3, h, w] where there are several."""
    return _frames(_opened("decode_gif", input, ("GIF",)))


def decode_webp(input, mode=ImageReadMode.UNCHANGED):
    """The pixels of a WebP picture, given as the bytes of its file."""
    return _decoded(_opened("decode_webp", input, ("WEBP",)), _mode(mode), False)


def decode_avif(input, mode=ImageReadMode.UNCHANGED):
    """The pixels of an AVIF picture, given as the bytes of its file; Pillow 11.3 or later decodes it."""
    return _decoded(_opened("decode_avif", input, ("AVIF",)), _mode(mode), False)


def decode_heic(input, mode=ImageReadMode.UNCHANGED):
    """NotImplementedError, with what reads HEIC."""
    raise NotImplementedError(f"decode_heic: Pillow does not read HEIC ({_mode(mode).name} of {len(input)} bytes); "
                              "pillow-heif does (`pip install pillow-heif`)")


# --- encoding ---------------------------------------------------------------------------------------------------------

def _encoded(name, input, format, **settings):
    if input.dtype != flambeau.uint8:
        raise RuntimeError(f"{name}: pixels must be uint8, got {input.dtype}; scale them to 0 … 255 and convert them")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(f"{name}: pixels must have shape [1 or 3, height, width], got {list(input.shape)}")
    file = io.BytesIO()
    pil_image(input.detach().cpu()).save(file, format, **settings)
    return flambeau.frombuffer(bytearray(file.getvalue()), dtype=flambeau.uint8)


def _between(name, what, value, low, high):
    if not low <= value <= high:
        raise ValueError(f"{name}: {what} must be from {low} to {high}, got {shown(value)}")
    return value


def encode_png(input, compression_level=6):
    """The bytes of a PNG file with these pixels [1 or 3, h, w]; compression_level from 0 to 9."""
    return _encoded("encode_png", input, "PNG",
                    compress_level=_between("encode_png", "compression_level", compression_level, 0, 9))


def encode_jpeg(input, quality=75):
    """The bytes of a JPEG file with these pixels [1 or 3, h, w]; of a list of pictures, a list."""
    _between("encode_jpeg", "quality", quality, 1, 100)
    if isinstance(input, (list, tuple)):
        return [encode_jpeg(picture, quality) for picture in input]
    return _encoded("encode_jpeg", input, "JPEG", quality=quality)


def write_png(input, filename, compression_level=6):
    """Writes pixels [1 or 3, h, w] to a PNG file."""
    write_file(os.fspath(filename), encode_png(input, compression_level))


def write_jpeg(input, filename, quality=75):
    """Writes pixels [1 or 3, h, w] to a JPEG file."""
    write_file(os.fspath(filename), encode_jpeg(input, quality))
