"""Swin transformers v1 and v2 (Liu et al. 2021, 2022): attention in windows that shift from layer to layer."""

import functools
import math

import flambeau
from flambeau import fx, nn
from flambeau.nn import functional as F

from ..ops.misc import MLP, Permute
from ..ops.stochastic_depth import StochasticDepth
from . import _windows
from ._api import builder, weights_enum
from ._utils import init
from .vision_transformer import glorot_init

__all__ = ["SwinTransformer", "Swin_B_Weights", "Swin_S_Weights", "Swin_T_Weights", "Swin_V2_B_Weights",
           "Swin_V2_S_Weights", "Swin_V2_T_Weights", "swin_b", "swin_s", "swin_t", "swin_v2_b", "swin_v2_s",
           "swin_v2_t"]

_enum = functools.partial(weights_enum, module=__name__)
Swin_T_Weights, Swin_S_Weights, Swin_B_Weights = (_enum(f"Swin_{size}_Weights") for size in "TSB")
Swin_V2_T_Weights, Swin_V2_S_Weights, Swin_V2_B_Weights = (_enum(f"Swin_V2_{size}_Weights") for size in "TSB")
#: first width, blocks per stage, heads per stage, greatest chance of leaving a block out
_SIZES = {"t": (96, [2, 2, 6, 2], [3, 6, 12, 24], 0.2), "s": (96, [2, 2, 18, 2], [3, 6, 12, 24], 0.3),
          "b": (128, [2, 2, 18, 2], [4, 8, 16, 32], 0.5)}


@fx.wrap
def _patch_merging_pad(x):
    """Four pixels of a square as one with four times the channels; odd sizes are padded."""
    x = F.pad(x, (0, 0, 0, x.shape[-2] % 2, 0, x.shape[-3] % 2))
    squares = [x[..., row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
    return flambeau.cat(squares, -1)


@fx.wrap
def _get_relative_position_bias(relative_position_bias_table, relative_position_index, window_size):
    """[1, heads, N, N] for a window of N places."""
    return _windows.position_bias(relative_position_bias_table, relative_position_index, math.prod(window_size))


class PatchMerging(nn.Module):
    """Half the size, twice the channels; a norm before."""

    def __init__(self, dim, norm_layer=nn.LayerNorm):
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(4 * dim)

    def forward(self, x):
        return self.reduction(self.norm(_patch_merging_pad(x)))


class PatchMergingV2(nn.Module):
    """Half the size, twice the channels; a norm after."""

    def __init__(self, dim, norm_layer=nn.LayerNorm):
        super().__init__()
        self.dim = dim
        self.reduction = nn.Linear(4 * dim, 2 * dim, bias=False)
        self.norm = norm_layer(2 * dim)

    def forward(self, x):
        return self.norm(self.reduction(_patch_merging_pad(x)))


@fx.wrap
def shifted_window_attention(input, qkv_weight, proj_weight, relative_position_bias, window_size, num_heads,
                             shift_size, attention_dropout=0.0, dropout=0.0, qkv_bias=None, proj_bias=None,
                             logit_scale=None, training=True):
    """Attention of [batch, height, width, channels] in windows; with logit_scale by cosines, keys without bias."""
    if logit_scale is not None and qkv_bias is not None:
        third = qkv_bias.shape[0] // 3
        qkv_bias = flambeau.cat([qkv_bias[:third], flambeau.zeros_like(qkv_bias[:third]), qkv_bias[2 * third:]])
    return _windows.attend(input, window_size, shift_size, num_heads, (qkv_weight, qkv_bias), (proj_weight, proj_bias),
                           relative_position_bias, attention_dropout, dropout, logit_scale, training)


class WindowAttention(nn.Module):
    """What attention in windows holds: projections, and a learned table of what each offset adds to the scores."""

    _axes = ()

    def __init__(self, dim, window_size, shift_size, num_heads, qkv_bias=True, proj_bias=True, attention_dropout=0.0,
                 dropout=0.0):
        super().__init__()
        if not len(window_size) == len(shift_size) == len(self._axes):
            raise ValueError(f"{type(self).__name__}: window_size and shift_size are [{', '.join(self._axes)}]; got "
                             f"{list(window_size)} and {list(shift_size)}")
        self.window_size, self.shift_size, self.num_heads = window_size, shift_size, num_heads
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim, bias=proj_bias)
        self.define_relative_position_bias_table()
        self.define_relative_position_index()

    def define_relative_position_bias_table(self):
        """A row per offset, a column per head."""
        rows = math.prod(2 * size - 1 for size in self.window_size)
        self.relative_position_bias_table = nn.Parameter(flambeau.zeros(rows, self.num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)


class ShiftedWindowAttention(WindowAttention):
    """window_size, shift_size: [height, width]."""

    _axes = ("height", "width")

    def define_relative_position_index(self):
        """Which row each pair of places uses."""
        index = _windows.relative_position_index(self.window_size)
        self.register_buffer("relative_position_index", index.flatten())

    def get_relative_position_bias(self):
        """What the offsets add to the scores."""
        return _get_relative_position_bias(self.relative_position_bias_table, self.relative_position_index,
                                           self.window_size)

    def forward(self, x):
        added = self.get_relative_position_bias()
        return shifted_window_attention(
            x, self.qkv.weight, self.proj.weight, added, self.window_size, self.num_heads, shift_size=self.shift_size,
            attention_dropout=self.attention_dropout, dropout=self.dropout, qkv_bias=self.qkv.bias,
            proj_bias=self.proj.bias, logit_scale=getattr(self, "logit_scale", None), training=self.training)


class ShiftedWindowAttentionV2(ShiftedWindowAttention):
    """Scores are scaled cosines, and a small network makes the table from offsets on a logarithmic scale."""

    def __init__(self, dim, window_size, shift_size, num_heads, qkv_bias=True, proj_bias=True, attention_dropout=0.0,
                 dropout=0.0):
        super().__init__(dim, window_size, shift_size, num_heads, qkv_bias, proj_bias, attention_dropout, dropout)
        self.logit_scale = nn.Parameter(flambeau.log(10 * flambeau.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 512), nn.ReLU(inplace=True), nn.Linear(512, num_heads, bias=False))
        if qkv_bias:
            with flambeau.no_grad():
                self.qkv.bias[dim:2 * dim].zero_()

    def define_relative_position_bias_table(self):
        """The offsets themselves, sign(x) log2(1 + |x|) / 3 for x from -8 to 8."""
        axes = [flambeau.arange(1 - size, size, dtype=flambeau.float32) / max(size - 1, 1) * 8
                for size in self.window_size]
        offsets = flambeau.stack(flambeau.meshgrid(axes, indexing="ij"), -1).unsqueeze(0)
        table = flambeau.sign(offsets) * flambeau.log2(flambeau.abs(offsets) + 1.0) / 3.0
        self.register_buffer("relative_coords_table", table)

    def get_relative_position_bias(self):
        """What the offsets add to the scores: 16 sigmoid of the network's answer."""
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        found = _get_relative_position_bias(table, self.relative_position_index, self.window_size)
        return 16 * flambeau.sigmoid(found)


class SwinTransformerBlock(nn.Module):
    """Attention and a perceptron, each after a norm and added to its input."""

    def __init__(self, dim, num_heads, window_size, shift_size, mlp_ratio=4.0, dropout=0.0, attention_dropout=0.0,
                 stochastic_depth_prob=0.0, norm_layer=nn.LayerNorm, attn_layer=ShiftedWindowAttention):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = attn_layer(dim, window_size, shift_size, num_heads, attention_dropout=attention_dropout,
                               dropout=dropout)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.norm2 = norm_layer(dim)
        self.mlp = MLP(dim, [int(dim * mlp_ratio), dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        glorot_init(self.mlp)

    def forward(self, x):
        x = x + self.stochastic_depth(self.attn(self.norm1(x)))
        return x + self.stochastic_depth(self.mlp(self.norm2(x)))


class SwinTransformerBlockV2(SwinTransformerBlock):
    """The same with each norm after instead of before."""

    def __init__(self, dim, num_heads, window_size, shift_size, mlp_ratio=4.0, dropout=0.0, attention_dropout=0.0,
                 stochastic_depth_prob=0.0, norm_layer=nn.LayerNorm, attn_layer=ShiftedWindowAttentionV2):
        super().__init__(dim, num_heads, window_size, shift_size, mlp_ratio, dropout, attention_dropout,
                         stochastic_depth_prob, norm_layer, attn_layer)

    def forward(self, x):
        x = x + self.stochastic_depth(self.norm1(self.attn(x)))
        return x + self.stochastic_depth(self.norm2(self.mlp(x)))


def stages(embed_dim, depths, num_heads, window_size, block, downsample, most_dropped, **settings):
    """The stages of a network: windows shift in every second block, and between stages the size is halved."""
    total, done = sum(depths), 0
    for k, (depth, heads) in enumerate(zip(depths, num_heads, strict=True)):
        width = embed_dim << k
        blocks = []
        for j in range(depth):
            shift = [side // 2 if j % 2 else 0 for side in window_size]
            blocks.append(block(width, heads, window_size=window_size, shift_size=shift,
                                stochastic_depth_prob=most_dropped * done / (total - 1), **settings))
            done += 1
        yield nn.Sequential(*blocks)
        if k < len(depths) - 1 and downsample is not None:
            yield downsample(width, settings["norm_layer"])


def init_linear(model):
    """The initial values of all linear layers."""
    init(model, linear=functools.partial(nn.init.trunc_normal_, std=0.02), norms=False)


class SwinTransformer(nn.Module):
    """patch_size, window_size: [height, width]. depths, num_heads: per stage."""

    def __init__(self, patch_size, embed_dim, depths, num_heads, window_size, mlp_ratio=4.0, dropout=0.0,
                 attention_dropout=0.0, stochastic_depth_prob=0.1, num_classes=1000, norm_layer=None, block=None,
                 downsample_layer=PatchMerging):
        super().__init__()
        self.num_classes = num_classes
        norm = norm_layer or functools.partial(nn.LayerNorm, eps=1e-5)
        patch = tuple(patch_size)
        patches = nn.Sequential(nn.Conv2d(3, embed_dim, patch, patch), Permute([0, 2, 3, 1]), norm(embed_dim))
        self.features = nn.Sequential(patches, *stages(
            embed_dim, depths, num_heads, window_size, block or SwinTransformerBlock, downsample_layer,
            stochastic_depth_prob, mlp_ratio=mlp_ratio, dropout=dropout, attention_dropout=attention_dropout,
            norm_layer=norm))
        width = embed_dim << (len(depths) - 1)
        self.norm, self.permute = norm(width), Permute([0, 3, 1, 2])
        self.avgpool, self.flatten = nn.AdaptiveAvgPool2d(1), nn.Flatten(1)
        self.head = nn.Linear(width, num_classes)
        init_linear(self)

    def forward(self, x):
        x = self.permute(self.norm(self.features(x)))
        return self.head(self.flatten(self.avgpool(x)))


def _swin(size, window, kwargs, **parts):
    width, depths, heads, dropped = _SIZES[size]
    dropped = kwargs.pop("stochastic_depth_prob", dropped)
    return SwinTransformer([4, 4], width, depths, heads, [window, window], stochastic_depth_prob=dropped, **parts,
                           **kwargs)


_swin_v2 = functools.partial(_swin, window=8, block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2)


@builder(Swin_T_Weights)
def swin_t(**kwargs):
    """Swin, tiny."""
    return _swin("t", 7, kwargs)


@builder(Swin_S_Weights)
def swin_s(**kwargs):
    """Swin, small."""
    return _swin("s", 7, kwargs)


@builder(Swin_B_Weights)
def swin_b(**kwargs):
    """Swin, base."""
    return _swin("b", 7, kwargs)


@builder(Swin_V2_T_Weights)
def swin_v2_t(**kwargs):
    """Swin v2, tiny."""
    return _swin_v2("t", kwargs=kwargs)


@builder(Swin_V2_S_Weights)
def swin_v2_s(**kwargs):
    """Swin v2, small."""
    return _swin_v2("s", kwargs=kwargs)


@builder(Swin_V2_B_Weights)
def swin_v2_b(**kwargs):
    """Swin v2, base."""
    return _swin_v2("b", kwargs=kwargs)
