"""Attention inside windows of images and videos: cutting, shifting, masking, relative positions, in any dimension."""

import itertools
import math

import flambeau
from flambeau.nn import functional as F


def relative_position_index(window):
    """[N, N] of a window of N places: which row of the table of offsets each pair uses."""
    places = flambeau.tensor(list(itertools.product(*map(range, window))))
    offsets = places[:, None] - places[None] + flambeau.tensor([size - 1 for size in window])
    spans = [2 * size - 1 for size in window]
    return sum(offsets[..., k] * math.prod(spans[k + 1:]) for k in range(len(window)))


def position_bias(table, index, places):
    """[1, heads, N, N]: what the table adds to the scores of each pair of a window's places."""
    return table[index].view(places, places, -1).permute(2, 0, 1).contiguous().unsqueeze(0)


def cut(x, window):
    """[batch, windows, places, channels] of [batch, *sizes, channels]; windows fill the sizes."""
    batch, *sizes, channels = x.shape
    n = len(sizes)
    split = [part for size, side in zip(sizes, window, strict=True) for part in (size // side, side)]
    order = [0, *range(1, 2 * n, 2), *range(2, 2 * n + 1, 2), 2 * n + 1]
    return x.view(batch, *split, channels).permute(*order).reshape(batch, -1, math.prod(window), channels)


def joined(x, sizes, window):
    """The opposite of `cut`."""
    n = len(sizes)
    counts = [size // side for size, side in zip(sizes, window, strict=True)]
    order = [0, *(axis for k in range(n) for axis in (1 + k, 1 + n + k)), 2 * n + 1]
    return x.reshape(x.shape[0], *counts, *window, x.shape[-1]).permute(*order).reshape(x.shape[0], *sizes, x.shape[-1])


def shift_mask(sizes, window, shift, like):
    """[windows, N, N]: -100 for pairs that the shift has brought together from opposite borders."""
    region = flambeau.zeros([1, *sizes, 1], dtype=like.dtype, device=like.device)
    for k, (size, side, moved) in enumerate(zip(sizes, window, shift, strict=True)):
        ends = [size - side, size - moved, size] if moved else [size]
        of_axis = [part for part, (start, end) in enumerate(itertools.pairwise([0, *ends])) for _ in range(end - start)]
        shape = [-1 if axis == k else 1 for axis in range(len(sizes))]
        values = flambeau.tensor(of_axis, dtype=like.dtype, device=like.device)
        region = region + values.view(1, *shape, 1) * 3 ** k
    region = cut(region, window)[0, :, :, 0]
    return (region[:, :, None] != region[:, None]).to(like.dtype) * -100.0


def _heads(x, weight, bias, num_heads):
    """Queries, keys and values, each [batch, windows, heads, places, channels of a head]."""
    batch, windows, places, channels = x.shape
    each = F.linear(x, weight, bias).view(batch, windows, places, 3, num_heads, channels // num_heads)
    return each.permute(3, 0, 1, 4, 2, 5).unbind(0)


def attend(x, window, shift, num_heads, qkv, proj, position_bias, attention_dropout, dropout, logit_scale, training):
    """Attention of every place to those in its window, after the image is shifted by `shift`.

    x: [batch, *sizes, channels]. qkv, proj: (weight, bias). logit_scale: per head, for cosines (Swin v2).
    """
    sizes = x.shape[1:-1]
    padding = [(-size) % side for size, side in zip(sizes, window, strict=True)]
    x = F.pad(x, (0, 0, *(amount for missing in reversed(padding) for amount in (0, missing))))
    padded = [size + missing for size, missing in zip(sizes, padding, strict=True)]
    shift = [0 if side >= size else moved for side, size, moved in zip(window, padded, shift, strict=True)]
    axes = list(range(1, len(sizes) + 1))
    if any(shift):
        x = flambeau.roll(x, [-moved for moved in shift], axes)
    q, k, v = _heads(cut(x, window), *qkv, num_heads)
    scale = None
    if logit_scale is not None:
        q = F.normalize(q, dim=-1) * flambeau.clamp(logit_scale, max=math.log(100.0)).exp()
        k, scale = F.normalize(k, dim=-1), 1.0
    added = position_bias
    if any(shift):
        added = added + shift_mask(padded, window, shift, x).unsqueeze(1)
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=scale,
                                           dropout_p=attention_dropout if training else 0.0)
    found = F.dropout(F.linear(found.transpose(2, 3).flatten(3), *proj), p=dropout, training=training)
    found = joined(found, padded, window)
    if any(shift):
        found = flambeau.roll(found, shift, axes)
    for axis, size in zip(axes, sizes, strict=True):
        found = found.narrow(axis, 0, size)
    return found.contiguous()
