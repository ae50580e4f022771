"""MaxViT (Tu et al. 2022): convolution, attention in windows, attention on a grid, in turn."""

import functools
from collections import OrderedDict

import flambeau
from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..ops.stochastic_depth import StochasticDepth
from . import _windows
from ._api import builder, weights_enum
from ._utils import init

__all__ = ["MaxVit", "MaxVit_T_Weights", "maxvit_t"]

MaxVit_T_Weights = weights_enum("MaxVit_T_Weights", __name__)


def _make_block_input_shapes(input_size, n_blocks):
    """The sizes after the stem and after each of the blocks but the last, each half the one before, rounded up."""
    sizes, size = [], tuple(input_size)
    for _ in range(n_blocks + 1):
        size = tuple((side - 1) // 2 + 1 for side in size)
        sizes.append(size)
    return sizes[1:]


class MBConv(nn.Module):
    """1x1 to more channels, 3x3 per channel, a gate, 1x1; added to the input, pooled where the stride is 2."""

    def __init__(self, in_channels, out_channels, expansion_ratio, squeeze_ratio, stride, activation_layer, norm_layer,
                 p_stochastic_dropout=0.0):
        super().__init__()
        pooling = [nn.AvgPool2d(3, stride, 1)] if stride == 2 else []
        self.proj = (nn.Sequential(*pooling, nn.Conv2d(in_channels, out_channels, 1))
                     if stride != 1 or in_channels != out_channels else nn.Identity())
        wide, narrow = int(out_channels * expansion_ratio), int(out_channels * squeeze_ratio)
        self.stochastic_depth = (StochasticDepth(p_stochastic_dropout, "row") if p_stochastic_dropout else
                                 nn.Identity())
        conv = functools.partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation_layer,
                                 inplace=None)
        self.layers = nn.Sequential(OrderedDict(
            pre_norm=norm_layer(in_channels), conv_a=conv(in_channels, wide, 1),
            conv_b=conv(wide, wide, 3, stride, 1, groups=wide),
            squeeze_excitation=SqueezeExcitation(wide, narrow, activation=nn.SiLU),
            conv_c=nn.Conv2d(wide, out_channels, 1)))

    def forward(self, x):
        return self.proj(x) + self.stochastic_depth(self.layers(x))


class RelativePositionalMultiHeadAttention(nn.Module):
    """Attention among max_seq_len places, a square, with a learned table of what each offset adds to the scores."""

    def __init__(self, feat_dim, head_dim, max_seq_len):
        super().__init__()
        if feat_dim % head_dim:
            raise ValueError(f"RelativePositionalMultiHeadAttention: heads of {shown(head_dim)} must fill the "
                             f"{shown(feat_dim)} channels")
        self.n_heads, self.head_dim, self.max_seq_len = feat_dim // head_dim, head_dim, max_seq_len
        self.size = int(max_seq_len ** 0.5)
        self.to_qkv = nn.Linear(feat_dim, 3 * feat_dim)
        self.scale_factor = feat_dim ** -0.5  # of all channels, not of a head's: the published weights were made so
        self.merge = nn.Linear(feat_dim, feat_dim)
        self.relative_position_bias_table = nn.Parameter(flambeau.empty((2 * self.size - 1) ** 2, self.n_heads))
        self.register_buffer("relative_position_index", _windows.relative_position_index((self.size, self.size)))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def get_relative_positional_bias(self):
        """[1, heads, N, N]."""
        rows = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        square = rows.view(self.max_seq_len, self.max_seq_len, -1)
        return square.permute(2, 0, 1).contiguous().unsqueeze(0)

    def forward(self, x):
        """x: [batch, windows, places, channels]."""
        batch, windows, places, channels = x.shape
        parts = flambeau.chunk(self.to_qkv(x), 3, dim=-1)
        parts = parts[0], parts[1], parts[2]
        q, k, v = (part.reshape(batch, windows, places, self.n_heads, self.head_dim).permute(0, 1, 3, 2, 4)
                   for part in parts)
        scores = flambeau.einsum("b w h i d, b w h j d -> b w h i j", q, k * self.scale_factor)
        weights = F.softmax(scores + self.get_relative_positional_bias(), dim=-1)
        found = flambeau.einsum("b w h i j, b w h j d -> b w h i d", weights, v)
        return self.merge(found.permute(0, 1, 3, 2, 4).reshape(batch, windows, places, channels))


class SwapAxes(nn.Module):
    """`x.swapaxes(a, b)` as a layer."""

    def __init__(self, a, b):
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x):
        return flambeau.swapaxes(x, self.a, self.b)


class WindowPartition(nn.Module):
    """Images as windows of p x p: [batch, windows, places, channels]."""

    def forward(self, x, p):
        batch, channels, height, width = x.shape
        x = x.reshape(batch, channels, height // p, p, width // p, p).permute(0, 2, 4, 3, 5, 1)
        return x.reshape(batch, (height // p) * (width // p), p * p, channels)


class WindowDepartition(nn.Module):
    """The opposite, for h_partitions x w_partitions windows."""

    def forward(self, x, p, h_partitions, w_partitions):
        batch, _, _, channels = x.shape
        x = x.reshape(batch, h_partitions, w_partitions, p, p, channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(batch, channels, h_partitions * p, w_partitions * p)


class PartitionAttentionLayer(nn.Module):
    """Attention and a perceptron inside windows ("window"), or among the same places of all windows ("grid")."""

    def __init__(self, in_channels, head_dim, partition_size, partition_type, grid_size, mlp_ratio, activation_layer,
                 norm_layer, attention_dropout, mlp_dropout, p_stochastic_dropout):
        super().__init__()
        if partition_type not in ("window", "grid"):
            raise ValueError(f"PartitionAttentionLayer: partition_type is 'window' or 'grid', got "
                             f"{shown(partition_type)}")
        self.grid_size, self.partition_size, self.partition_type = grid_size, partition_size, partition_type
        across = partition_type == "grid"
        self.p = grid_size[0] // partition_size if across else partition_size
        self.partition_op, self.departition_op = WindowPartition(), WindowDepartition()
        self.partition_swap = SwapAxes(-2, -3) if across else nn.Identity()
        self.departition_swap = SwapAxes(-2, -3) if across else nn.Identity()
        self.attn_layer = nn.Sequential(
            norm_layer(in_channels), RelativePositionalMultiHeadAttention(in_channels, head_dim, partition_size ** 2),
            nn.Dropout(attention_dropout))
        self.mlp_layer = nn.Sequential(
            nn.LayerNorm(in_channels), nn.Linear(in_channels, in_channels * mlp_ratio), activation_layer(),
            nn.Linear(in_channels * mlp_ratio, in_channels), nn.Dropout(mlp_dropout))
        self.stochastic_dropout = StochasticDepth(p_stochastic_dropout, "row")

    def forward(self, x):
        rows, columns = (side // self.p for side in self.grid_size)
        flambeau._assert(self.grid_size[0] % self.p == 0 and self.grid_size[1] % self.p == 0,
                         f"MaxVit: windows of {self.p} must fill the {self.grid_size} of this block; choose another "
                         "input_size or partition_size")
        x = self.partition_swap(self.partition_op(x, self.p))
        x = x + self.stochastic_dropout(self.attn_layer(x))
        x = x + self.stochastic_dropout(self.mlp_layer(x))
        return self.departition_op(self.departition_swap(x), self.p, rows, columns)


class MaxVitLayer(nn.Module):
    """A convolution block, attention in windows, attention on the grid."""

    def __init__(self, in_channels, out_channels, squeeze_ratio, expansion_ratio, stride, norm_layer, activation_layer,
                 head_dim, mlp_ratio, mlp_dropout, attention_dropout, p_stochastic_dropout, partition_size, grid_size):
        super().__init__()
        attention = {f"{kind}_attention": functools.partial(
            PartitionAttentionLayer, out_channels, head_dim, partition_size, kind, grid_size, mlp_ratio,
            activation_layer, nn.LayerNorm, attention_dropout, mlp_dropout, p_stochastic_dropout)
            for kind in ("window", "grid")}
        convolution = MBConv(in_channels, out_channels, expansion_ratio, squeeze_ratio, stride, activation_layer,
                             norm_layer, p_stochastic_dropout)
        self.layers = nn.Sequential(OrderedDict(MBconv=convolution, **{k: make() for k, make in attention.items()}))

    def forward(self, x):
        return self.layers(x)


class MaxVitBlock(nn.Module):
    """n_layers layers; the first one halves the size. p_stochastic: per layer, the chance of leaving it out."""

    def __init__(self, in_channels, out_channels, squeeze_ratio, expansion_ratio, norm_layer, activation_layer,
                 head_dim, mlp_ratio, mlp_dropout, attention_dropout, partition_size, input_grid_size, n_layers,
                 p_stochastic):
        super().__init__()
        if len(p_stochastic) != n_layers:
            raise ValueError(f"MaxVitBlock: p_stochastic needs a chance for each of the {shown(n_layers)} layers; got "
                             f"{shown(p_stochastic)}")
        self.grid_size = tuple((side - 1) // 2 + 1 for side in input_grid_size)
        self.layers = nn.ModuleList(
            MaxVitLayer(out_channels if k else in_channels, out_channels, squeeze_ratio, expansion_ratio, 1 if k else 2,
                        norm_layer, activation_layer, head_dim, mlp_ratio, mlp_dropout, attention_dropout, chance,
                        partition_size, self.grid_size) for k, chance in enumerate(p_stochastic))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class MaxVit(nn.Module):
    """input_size: (height, width) of the images; every block's size must be filled by windows of partition_size."""

    def __init__(self, input_size, stem_channels, partition_size, block_channels, block_layers, head_dim,
                 stochastic_depth_prob, norm_layer=None, activation_layer=nn.GELU, squeeze_ratio=0.25,
                 expansion_ratio=4, mlp_ratio=4, mlp_dropout=0.0, attention_dropout=0.0, num_classes=1000):
        super().__init__()
        norm = norm_layer or functools.partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)
        sizes = _make_block_input_shapes(input_size, len(block_channels))
        for size in sizes:
            if size[0] % partition_size or size[1] % partition_size:
                raise ValueError(f"MaxVit: windows of {shown(partition_size)} do not fill the {shown(size)} pixels of "
                                 f"a block; choose another input_size than {shown(input_size)}")
        conv = functools.partial(Conv2dNormActivation, inplace=None)
        self.stem = nn.Sequential(
            conv(3, stem_channels, 3, 2, norm_layer=norm, activation_layer=activation_layer, bias=False),
            conv(stem_channels, stem_channels, 3, 1, norm_layer=None, activation_layer=None, bias=True))
        self.partition_size = partition_size
        grid, channels, total = tuple((side - 1) // 2 + 1 for side in input_size), stem_channels, sum(block_layers)
        chances = [stochastic_depth_prob * k / max(total - 1, 1) for k in range(total)]
        blocks = []
        for width, depth in zip(block_channels, block_layers, strict=True):
            blocks.append(MaxVitBlock(channels, width, squeeze_ratio, expansion_ratio, norm, activation_layer, head_dim,
                                      mlp_ratio, mlp_dropout, attention_dropout, partition_size, grid, depth,
                                      chances[:depth]))
            grid, channels, chances = blocks[-1].grid_size, width, chances[depth:]
        self.blocks = nn.ModuleList(blocks)
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(channels),
                                        nn.Linear(channels, channels), nn.Tanh(),
                                        nn.Linear(channels, num_classes, bias=False))
        normal = functools.partial(nn.init.normal_, std=0.02)
        init(self, normal, normal)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classifier(x)


@builder(MaxVit_T_Weights)
def maxvit_t(**kwargs):
    """MaxViT, tiny, for images of 224 x 224."""
    return MaxVit(kwargs.pop("input_size", (224, 224)), 64, 7, [64, 128, 256, 512], [2, 2, 5, 2], 32,
                  kwargs.pop("stochastic_depth_prob", 0.2), **kwargs)
