"""Optical flow as colours: the direction as a hue of the wheel, the length as its saturation (Baker et al. 2011)."""

import functools

import flambeau

#: the wheel: from each of these colours to the next in so many steps
_STEPS = (((255, 0, 0), 15), ((255, 255, 0), 6), ((0, 255, 0), 4), ((0, 255, 255), 11), ((0, 0, 255), 13),
          ((255, 0, 255), 6))


@functools.cache
def _wheel():
    """[55, 3], from 0 to 255, in whole numbers."""
    colors = []
    for k, (start, steps) in enumerate(_STEPS):
        end = _STEPS[(k + 1) % len(_STEPS)][0]
        for i in range(steps):
            part = 255 * i // steps
            colors.append([a if a == b else part if b else 255 - part for a, b in zip(start, end, strict=True)])
    return flambeau.tensor(colors, dtype=flambeau.float32)


def flow_to_image(flow):
    """The colours [3, h, w] (uint8) of a flow [2, h, w] (float32), or of a batch of them.

    The longest vector of all has full saturation; where nothing moves the picture is white.

    >>> flambeau.vision.utils.flow_to_image(flambeau.tensor([[[1., 0.]], [[0., 0.]]]))[:, 0, 0]
    tensor([255,   0,   0], dtype=torch.uint8)
    """
    if flow.dtype != flambeau.float32:
        raise ValueError(f"flow_to_image: flow must be float32, got {flow.dtype}")
    if flow.ndim not in (3, 4) or flow.shape[-3] != 2:
        raise ValueError(f"flow_to_image: flow must have shape [2, h, w] or [n, 2, h, w], got {list(flow.shape)}")
    batch = flow if flow.ndim == 4 else flow[None]
    longest = (batch ** 2).sum(1).sqrt().max()
    x, y = (batch / (longest + flambeau.finfo(flambeau.float32).eps)).unbind(1)
    length = (x ** 2 + y ** 2).sqrt()
    wheel = _wheel().to(flow.device)
    place = (flambeau.atan2(-y, -x) / flambeau.pi + 1) / 2 * (len(wheel) - 1)
    low = place.floor().long()
    high = (low + 1) % len(wheel)
    part = (place - low)[..., None]
    color = ((1 - part) * wheel[low] + part * wheel[high]) / 255
    color = 1 - length[..., None] * (1 - color)
    image = (color * 255).floor().to(flambeau.uint8).permute(0, 3, 1, 2)
    return image if flow.ndim == 4 else image[0]
