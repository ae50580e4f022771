"""Pillow's images and tensors of bytes [channels, height, width], both ways."""

import flambeau


def pillow(name):
    """A module of Pillow; ImportError says how to install it."""
    try:
        import PIL.ImageColor
        import PIL.ImageDraw
        import PIL.ImageFont
        import PIL.ImageOps
        return getattr(PIL, name)
    except ImportError as error:
        raise ImportError("pictures are read, written and drawn by Pillow, which is not installed: "
                          "pip install pillow") from error


def pil_image(pixels):
    """The picture of bytes [c, h, w] with 1, 3 or 4 channels."""
    array = pixels.permute(1, 2, 0).contiguous().cpu().numpy()
    return pillow("Image").fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def pixels_of(image):
    """The bytes [c, h, w] of a picture with 8 bits per channel."""
    width, height = image.size
    data = flambeau.frombuffer(bytearray(image.tobytes()), dtype=flambeau.uint8)
    return data.reshape(height, width, len(image.getbands())).permute(2, 0, 1)
