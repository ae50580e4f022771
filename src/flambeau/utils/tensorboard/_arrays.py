"""What users give as numbers, images and videos, as NumPy arrays of the shape and dtype that files hold."""

from ... import Tensor
from ..._shown import shown

_COLUMNS = 8


def as_array(x):
    """Tensors, arrays, numbers and lists of numbers as an array."""
    import numpy as np

    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if str(x.dtype).endswith("bfloat16") else x).resolve_conj().numpy()
    if isinstance(x, (str, bytes)) or x is None:
        raise NotImplementedError(f"expected numbers (a tensor, an array, a list), got {shown(x)}")
    found = np.asarray(x)
    if found.dtype == object:
        raise NotImplementedError(f"expected numbers (a tensor, an array, a list), got {shown(x)}")
    return found.reshape(1) if found.ndim == 0 else found


def to_uint8(pixels):
    """Bytes as they are, anything else from [0, 1] to [0, 255]."""
    import numpy as np

    scale = 1 if pixels.dtype == np.uint8 else 255
    return (pixels.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def grid(images, columns=None):
    """Images [N, C, H, W] side by side in one [C, rows H, columns W]; what is left over stays black."""
    import numpy as np

    number, channels, height, width = images.shape
    columns = columns or min(number, _COLUMNS)
    rows = -(-number // columns)
    canvas = np.zeros((rows * columns, channels, height, width), images.dtype)
    canvas[:number] = images
    tiles = canvas.reshape(rows, columns, channels, height, width)
    return tiles.transpose(2, 0, 3, 1, 4).reshape(channels, rows * height, columns * width)


def to_hwc(pixels, dataformats):
    """Pixels whose dimensions `dataformats` names (NCHW in any order, or CHW, HWC, HW …) as [H, W, C]."""
    import numpy as np

    given = dataformats.upper()
    expected = {2: "HW", 3: "CHW", 4: "NCHW"}.get(pixels.ndim)
    if expected is None or sorted(given) != sorted(expected):
        raise AssertionError(f"an image of shape {list(pixels.shape)} has dimensions {expected or 'HW, CHW or NCHW'}, "
                             f"in any order; got dataformats={shown(dataformats)}")
    pixels = pixels.transpose([given.index(letter) for letter in expected])
    if pixels.ndim == 4:
        pixels = grid(np.repeat(pixels, 3, axis=1) if pixels.shape[1] == 1 else pixels)
    if pixels.ndim == 2:
        pixels = pixels[None]
    pixels = pixels.transpose(1, 2, 0)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def video_frames(clips):
    """Clips [N, T, C, H, W] side by side: frames [T, H, W, C]. Their number is filled up to a power of two."""
    import numpy as np

    number, length = clips.shape[:2]
    whole = 1 << max(number - 1, 0).bit_length()
    black = np.zeros((whole - number, *clips.shape[1:]), clips.dtype)
    clips = np.concatenate([clips, black])
    columns = whole // (1 << ((whole.bit_length() - 1) // 2))
    frames = [grid(clips[:, t], columns).transpose(1, 2, 0) for t in range(length)]
    return np.stack([np.repeat(f, 3, axis=2) if f.shape[2] == 1 else f for f in frames])


def figure_pixels(figure):
    """A figure of Matplotlib as [C, H, W], drawn at its own size."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
