"""Video Swin transformers (Liu et al. 2021): attention in windows of space and time."""

import functools
import math

import flambeau
from flambeau import fx, nn
from flambeau.nn import functional as F

from .. import _windows
from .._api import builder, weights_enum
from ..swin_transformer import PatchMerging, SwinTransformerBlock, WindowAttention, init_linear, stages

__all__ = ["Swin3D_B_Weights", "Swin3D_S_Weights", "Swin3D_T_Weights", "SwinTransformer3d", "swin3d_b", "swin3d_s",
           "swin3d_t"]

Swin3D_T_Weights, Swin3D_S_Weights, Swin3D_B_Weights = (
    weights_enum(f"Swin3D_{size}_Weights", __name__) for size in "TSB")
#: first width, blocks per stage, heads per stage
_SIZES = {"t": (96, [2, 2, 6, 2], [3, 6, 12, 24]), "s": (96, [2, 2, 18, 2], [3, 6, 12, 24]),
          "b": (128, [2, 2, 18, 2], [4, 8, 16, 32])}


@fx.wrap
def _get_window_and_shift_size(shift_size, size_dhw, window_size):
    """(window, shift): a window is no larger than the video, and then nothing shifts in that direction."""
    fits = [size > side for size, side in zip(size_dhw, window_size, strict=True)]
    window = [side if fit else size for side, size, fit in zip(window_size, size_dhw, fits, strict=True)]
    return window, [moved if fit else 0 for moved, fit in zip(shift_size, fits, strict=True)]


@fx.wrap
def _get_relative_position_bias(relative_position_bias_table, relative_position_index, window_size):
    """[1, heads, N, N] for a window of N places, a corner of the full one."""
    places = math.prod(window_size)
    index = relative_position_index[:places, :places]
    return _windows.position_bias(relative_position_bias_table, index.flatten(), places)


@fx.wrap
def _compute_pad_size_3d(size_dhw, patch_size):
    """What is missing to whole patches: frames, rows, columns."""
    return tuple((-size) % side for size, side in zip(size_dhw, patch_size, strict=True))


@fx.wrap
def shifted_window_attention_3d(input, qkv_weight, proj_weight, relative_position_bias, window_size, num_heads,
                                shift_size, attention_dropout=0.0, dropout=0.0, qkv_bias=None, proj_bias=None,
                                training=True):
    """Attention of [batch, frames, height, width, channels] in windows."""
    return _windows.attend(input, window_size, shift_size, num_heads, (qkv_weight, qkv_bias), (proj_weight, proj_bias),
                           relative_position_bias, attention_dropout, dropout, None, training)


class ShiftedWindowAttention3d(WindowAttention):
    """window_size, shift_size: [frames, height, width]."""

    _axes = ("frames", "height", "width")

    def define_relative_position_index(self):
        """Which row each pair of places uses."""
        self.register_buffer("relative_position_index", _windows.relative_position_index(self.window_size))

    def get_relative_position_bias(self, window_size):
        """What the offsets of such a window add to the scores."""
        return _get_relative_position_bias(self.relative_position_bias_table, self.relative_position_index, window_size)

    def forward(self, x):
        _, frames, height, width, _ = x.shape
        found = _get_window_and_shift_size(self.shift_size, (frames, height, width), self.window_size)
        window, shift = found[0], found[1]
        added = self.get_relative_position_bias(window)
        return shifted_window_attention_3d(
            x, self.qkv.weight, self.proj.weight, added, window, self.num_heads, shift_size=shift,
            attention_dropout=self.attention_dropout, dropout=self.dropout, qkv_bias=self.qkv.bias,
            proj_bias=self.proj.bias, training=self.training)


class PatchEmbed3d(nn.Module):
    """Patches of frames, height and width as embed_dim channels, which come last."""

    def __init__(self, patch_size, in_channels=3, embed_dim=96, norm_layer=None):
        super().__init__()
        self.tuple_patch_size = tuple(patch_size)
        self.proj = nn.Conv3d(in_channels, embed_dim, self.tuple_patch_size, self.tuple_patch_size)
        self.norm = nn.Identity() if norm_layer is None else norm_layer(embed_dim)

    def forward(self, x):
        _, _, frames, height, width = x.size()
        missing = _compute_pad_size_3d((frames, height, width), self.tuple_patch_size)
        x = F.pad(x, (0, missing[2], 0, missing[1], 0, missing[0]))
        return self.norm(self.proj(x).permute(0, 2, 3, 4, 1))


class SwinTransformer3d(nn.Module):
    """Videos are (batch, 3, frames, height, width). patch_size, window_size: [frames, height, width]."""

    def __init__(self, patch_size, embed_dim, depths, num_heads, window_size, mlp_ratio=4.0, dropout=0.0,
                 attention_dropout=0.0, stochastic_depth_prob=0.1, num_classes=400, norm_layer=None, block=None,
                 downsample_layer=PatchMerging, patch_embed=None):
        super().__init__()
        self.num_classes = num_classes
        norm = norm_layer or functools.partial(nn.LayerNorm, eps=1e-5)
        block = block or functools.partial(SwinTransformerBlock, attn_layer=ShiftedWindowAttention3d)
        self.patch_embed = (patch_embed or PatchEmbed3d)(patch_size=patch_size, embed_dim=embed_dim, norm_layer=norm)
        self.pos_drop = nn.Dropout(dropout)
        self.features = nn.Sequential(*stages(
            embed_dim, depths, num_heads, window_size, block, downsample_layer, stochastic_depth_prob,
            mlp_ratio=mlp_ratio, dropout=dropout, attention_dropout=attention_dropout, norm_layer=norm))
        self.num_features = embed_dim << (len(depths) - 1)
        self.norm, self.avgpool = norm(self.num_features), nn.AdaptiveAvgPool3d(1)
        self.head = nn.Linear(self.num_features, num_classes)
        init_linear(self)

    def forward(self, x):
        x = self.norm(self.features(self.pos_drop(self.patch_embed(x))))
        return self.head(flambeau.flatten(self.avgpool(x.permute(0, 4, 1, 2, 3)), 1))


def _swin3d(size, kwargs):
    dropped = kwargs.pop("stochastic_depth_prob", 0.1)
    return SwinTransformer3d([2, 4, 4], *_SIZES[size], [8, 7, 7], stochastic_depth_prob=dropped, **kwargs)


@builder(Swin3D_T_Weights)
def swin3d_t(**kwargs):
    """Video Swin, tiny."""
    return _swin3d("t", kwargs)


@builder(Swin3D_S_Weights)
def swin3d_s(**kwargs):
    """Video Swin, small."""
    return _swin3d("s", kwargs)


@builder(Swin3D_B_Weights)
def swin3d_b(**kwargs):
    """Video Swin, base."""
    return _swin3d("b", kwargs)
