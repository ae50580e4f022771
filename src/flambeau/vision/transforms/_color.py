"""What happens to the values of pixels: brightness, contrast, hue, tables, noise, blur. On tensors.

`v2=True` takes the steps of `transforms.v2`, whose results differ from v1's where a value lies within a rounding error
of a whole number.
"""


from numbers import Number

from ... import cat, exp, float32, float64, int16, int64, linspace, ones, outer, randn_like, stack, uint8
from ..._shown import shown
from ...nn import functional as nn
from ._geometry import to_dtype
from ._kinds import largest

_WEIGHTS = (0.2989, 0.587, 0.114)  # of red, green and blue in the eye's brightness (ITU-R 601)


def check_channels(image, where):
    """1 or 3, or a TypeError."""
    channels = image.shape[-3] if image.dim() > 2 else 1
    if channels not in (1, 3):
        raise TypeError(f"{where}: a picture has 1 or 3 channels, got {channels} (shape {list(image.shape)})")
    return channels


def _gray(image):
    """Brightness of each pixel as floats, [..., 1, h, w]."""
    r, g, b = image.to(float32 if not image.is_floating_point() else image.dtype).unbind(-3)
    return (_WEIGHTS[0] * r + _WEIGHTS[1] * g + _WEIGHTS[2] * b).unsqueeze(-3)


def grayscale(image, channels=1):
    """One gray channel, or three equal ones."""
    if channels not in (1, 3):
        raise ValueError(f"rgb_to_grayscale: num_output_channels must be 1 or 3, got {shown(channels)}")
    if check_channels(image, "rgb_to_grayscale") == 3:
        image = _gray(image).to(image.dtype)
    return image.expand(*image.shape[:-3], 3, *image.shape[-2:]) if channels == 3 else image.clone()


def blend(image, other, factor, v2=False):
    """factor * image + (1 - factor) * other, kept in the range of the dtype."""
    mixed = image.mul(factor)
    if v2:
        mixed = mixed.add(other, alpha=1.0 - factor)  # one rounding for this product and the sum
    else:
        mixed = mixed.add_(other * (1.0 - factor))  # both products rounded, whatever the processor can fuse
    return mixed.clamp_(0, largest(image.dtype)).to(image.dtype)


def not_negative(factor, name):
    if factor < 0:
        raise ValueError(f"adjust_{name}: the factor must not be negative, got {shown(factor)}")


def brightness(image, factor):
    not_negative(factor, "brightness")
    check_channels(image, "adjust_brightness")
    return image.mul(factor).clamp_(0, largest(image.dtype)).to(image.dtype)


def contrast(image, factor):
    not_negative(factor, "contrast")
    gray = _gray(image) if check_channels(image, "adjust_contrast") == 3 else image
    if not image.is_floating_point():
        gray = gray.floor() if gray.is_floating_point() else gray.to(float32)
    return blend(image, gray.mean((-3, -2, -1), keepdim=True), factor)


def saturation(image, factor, v2=False):
    not_negative(factor, "saturation")
    if check_channels(image, "adjust_saturation") == 1:
        return image
    gray = _gray(image)
    return blend(image, gray if image.is_floating_point() else gray.floor_(), factor, v2)


def gamma(image, exponent, gain=1):
    """gain * image ** exponent, of values between 0 and 1."""
    if exponent < 0:
        raise ValueError(f"adjust_gamma: gamma must not be negative, got {shown(exponent)}")
    values = image if image.is_floating_point() else to_dtype(image, float32)
    return to_dtype((gain * values ** exponent).clamp(0, 1), image.dtype)


def hue(image, factor, v2=False):
    """The hue turned by `factor` of a circle, between -0.5 and 0.5."""
    if not -0.5 <= factor <= 0.5:
        raise ValueError(f"adjust_hue: hue_factor must be between -0.5 and 0.5, got {shown(factor)}")
    if check_channels(image, "adjust_hue") == 1 or image.numel() == 0:
        return image
    values = image if image.is_floating_point() else to_dtype(image, float32, v2)
    h, s, v = _hsv(values)
    return to_dtype(_rgb((h + factor) % 1.0, s, v, v2), image.dtype)


def _hsv(image):
    """Hue, saturation and value; a gray pixel has hue 0."""
    r, g, b = image.unbind(-3)
    most, least = image.amax(-3), image.amin(-3)
    spread, gray = most - least, most == least
    one = most.new_ones(())
    divisor = one.where(gray, spread)
    rc, gc, bc = (most - r) / divisor, (most - g) / divisor, (most - b) / divisor
    is_red, is_green = most == r, (most == g) & (most != r)
    h = is_red * (bc - gc) + is_green * (2.0 + rc - bc) + ((most != g) & (most != r)) * (4.0 + gc - rc)
    return (h * (1.0 / 6.0) + 1.0).fmod(1.0), spread / one.where(gray, most), most


def _rgb(h, s, v, v2):
    """Each sixth of the circle is a way between two corners of the color cube."""
    sixth = (h * 6.0).floor()
    part = h * 6.0 - sixth
    pale = s * part
    rising = 1.0 - s + pale if v2 else 1.0 - (s - pale)
    p, q, t = ((v * share).clamp(0, 1) for share in (1.0 - s, 1.0 - pale, rising))
    index = (sixth.to(int64) % 6).unsqueeze(-3)
    corners = ((v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q))
    return cat([stack(choice, -3).gather(-3, index) for choice in corners], -3)


def invert(image):
    return 1.0 - image if image.is_floating_point() else largest(image.dtype) - image


def posterize(image, bits):
    """Only the first `bits` bits of each value; floats as if they had 2 ** bits levels."""
    if image.is_floating_point():
        levels = 1 << bits
        return (image * levels).floor_().clamp_(0, levels - 1).mul_(1.0 / levels)
    if bits >= image.dtype.itemsize * 8:
        return image
    keep = image.dtype.itemsize * 8 - bits
    return image & -(1 << keep) if image.dtype != uint8 else image & (256 - (1 << keep))


def solarize(image, threshold):
    """What is at or above the threshold is inverted."""
    if threshold > largest(image.dtype):
        raise TypeError(f"solarize: the threshold must not be above {largest(image.dtype)} for {image.dtype}, "
                        f"got {shown(threshold)}")
    return invert(image).where(image >= threshold, image)


def autocontrast(image, v2=False):
    """Each channel stretched over the whole range."""
    check_channels(image, "autocontrast")
    white = largest(image.dtype)
    values = image if image.is_floating_point() else image.to(float32)
    least, most = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    flat = least == most
    spread = (most - least).masked_fill(flat, white)
    least = least.masked_fill(flat, 0)
    above = values - least
    stretched = above / (spread * (1.0 / white)) if v2 else above * (spread.reciprocal() * white)
    return stretched.clamp_(0, white).to(image.dtype)


def equalize(image):
    """Each channel's values spread evenly over 0 to 255; other dtypes go through uint8."""
    check_channels(image, "equalize")
    if image.numel() == 0:
        return image
    values = to_dtype(image, uint8).reshape(-1, image.shape[-2] * image.shape[-1])
    planes = [_equalized(plane) for plane in values.unbind(0)]
    return to_dtype(stack(planes).reshape(image.shape), image.dtype)


def _equalized(plane):
    counts = plane.to(int64).bincount(minlength=256)
    there = counts[counts != 0]
    step = int(there[:-1].sum()) // 255
    if step == 0:
        return plane
    table = (counts.cumsum(0) + step // 2).div(step, rounding_mode="floor")
    table = nn.pad(table, [1, 0])[:-1].clamp_(0, 255).to(uint8)
    return table[plane.to(int64)]


def gaussian_kernel(size, sigma, dtype, v2=False):
    """[size] of a normal density on whole steps, with the sum 1."""
    half = (size - 1) * 0.5
    if v2:
        x = linspace(-half * 0.5 ** 0.5, half * 0.5 ** 0.5, size, dtype=dtype) / sigma
        return (-(x * x)).softmax(0)
    x = linspace(-half, half, size, dtype=dtype)
    density = exp((-0.5 * (x / sigma) ** 2).to(float64)).to(dtype)  # rounded once
    return density / _sum_in_lanes(density)


def _sum_in_lanes(values):
    """The sum in PyTorch's order for few numbers: in lanes of a vector, what is left over into the first of them."""
    width = 8 if len(values) >= 8 else 4
    rows = list(values.split(width))
    rest = rows.pop() if len(rows[-1]) < width else None
    if not rows:
        return _one_by_one(rest)
    lanes = sum(rows[1:], rows[0].clone())
    if rest is not None:
        lanes[0] = lanes[0] + _one_by_one(rest) if width == 8 else _one_by_one(cat([lanes[:1], rest]))
    return _one_by_one(lanes)


def _one_by_one(values):
    return sum(values[1:], values[0])


def blur_settings(kernel_size, sigma, where="gaussian_blur"):
    """([kx, ky], [sx, sy]), checked; sigma None follows the kernel's size."""
    kernel = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size) * (3 - len(kernel_size))
    if len(kernel) != 2 or any(k <= 0 or k % 2 == 0 for k in kernel):
        raise ValueError(f"{where}: kernel_size must be one or two odd positive numbers, got {shown(kernel_size)}")
    if sigma is None:
        sigma = [k * 0.15 + 0.35 for k in kernel]
    sigma = [float(sigma)] * 2 if isinstance(sigma, Number) else list(sigma) * (3 - len(sigma))
    if len(sigma) != 2 or any(s <= 0 for s in sigma):
        raise ValueError(f"{where}: sigma must be one or two positive numbers, got {shown(sigma)}")
    return kernel, sigma


def gaussian_blur(image, kernel_size, sigma, v2=False):
    """Weighted means of a window; the picture is reflected at its edges."""
    (kx, ky), (sx, sy) = blur_settings(kernel_size, sigma)
    if image.numel() == 0:
        return image
    dtype = image.dtype if image.is_floating_point() else float32
    kernel = outer(gaussian_kernel(ky, sy, dtype, v2), gaussian_kernel(kx, sx, dtype, v2))
    planes = image.to(dtype).reshape(-1, 1, *image.shape[-2:])
    padded = nn.pad(planes, [kx // 2, kx // 2, ky // 2, ky // 2], mode="reflect")
    return _rounded(_filtered(padded, kernel), image)


def _filtered(planes, kernel):
    """[n, 1, h, w] with one kernel; as channels of one picture, as a convolution per channel sees them."""
    n = planes.shape[0]
    weight = kernel.to(planes.device).expand(n, 1, *kernel.shape)
    return nn.conv2d(planes.transpose(0, 1), weight, groups=n).transpose(0, 1)


def _rounded(values, image):
    if not image.is_floating_point():
        values = values.round_()
    return values.to(image.dtype).reshape(image.shape)


def sharpness(image, factor, from_image=True):
    """Between a smoothed picture (0) and beyond the picture itself (1); the outermost pixels stay.

    Rounding differs by which picture the other is added to: v2 steps from the image, v1 blends the two.
    """
    not_negative(factor, "sharpness")
    check_channels(image, "adjust_sharpness")
    if image.shape[-1] <= 2 or image.shape[-2] <= 2:
        return image
    dtype = image.dtype if image.is_floating_point() else float32
    kernel = ones(3, 3, dtype=dtype)
    kernel[1, 1] = 5.0
    kernel /= kernel.sum()
    planes = image.to(dtype).reshape(-1, 1, *image.shape[-2:])
    smooth = planes.clone()
    inner = _filtered(planes, kernel)
    smooth[..., 1:-1, 1:-1] = inner if image.is_floating_point() else inner.round_()
    if not from_image:
        return blend(image, smooth.reshape(image.shape), factor)
    values = image.to(dtype)
    mixed = values.add(smooth.reshape(image.shape) - values, alpha=1.0 - factor)
    return mixed.clamp_(0, largest(image.dtype)).to(image.dtype)


def normalize(image, mean, std, inplace):
    """(image - mean) / std per channel."""
    if not image.is_floating_point():
        raise TypeError(f"normalize: the picture must be of floats, got {image.dtype}; convert_image_dtype scales it")
    if image.dim() < 3:
        raise ValueError(f"normalize: the picture has the dimensions [..., channels, height, width], "
                         f"got shape {list(image.shape)}")
    mean, std = (image.new_tensor(list(v) if not isinstance(v, Number) else [v]) for v in (mean, std))
    if (std == 0).any():
        raise ValueError(f"normalize: std has a zero in {image.dtype}: {shown(std.tolist())}")
    mean, std = mean.view(-1, 1, 1), std.view(-1, 1, 1)
    return (image.sub_(mean) if inplace else image - mean).div_(std)


def gaussian_noise(image, mean, sigma, clip):
    """Noise added to each value; for uint8, mean and sigma are parts of 255."""
    if sigma < 0:
        raise ValueError(f"gaussian_noise: sigma must not be negative, got {shown(sigma)}")
    if image.is_floating_point():
        noisy = image + (mean + randn_like(image) * sigma)
        return noisy.clamp_(0, 1) if clip else noisy
    if image.dtype != uint8:
        raise ValueError(f"gaussian_noise: the picture must be of floats or uint8, got {image.dtype}")
    noise = ((randn_like(image, dtype=float32) * sigma + mean) * 255).to(int16)
    noisy = image.to(int16) + noise
    return (noisy.clamp_(0, 255) if clip else noisy).to(uint8)
