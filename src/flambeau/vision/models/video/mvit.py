"""Multiscale vision transformers v1 and v2 (Fan et al. 2021, Li et al. 2022): attention that pools as it goes."""

import functools
import math

import flambeau
from flambeau import fx, nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ...ops.misc import MLP
from ...ops.stochastic_depth import StochasticDepth
from .._api import builder, weights_enum

__all__ = ["MViT", "MViT_V1_B_Weights", "MViT_V2_S_Weights", "mvit_v1_b", "mvit_v2_s"]

MViT_V1_B_Weights = weights_enum("MViT_V1_B_Weights", __name__)
MViT_V2_S_Weights = weights_enum("MViT_V2_S_Weights", __name__)


class MSBlockConfig:
    """A block: heads, channels, and kernels and strides with which queries, keys and values are pooled."""

    def __init__(self, num_heads, input_channels, output_channels, kernel_q, kernel_kv, stride_q, stride_kv):
        self.num_heads, self.input_channels, self.output_channels = num_heads, input_channels, output_channels
        self.kernel_q, self.kernel_kv, self.stride_q, self.stride_kv = kernel_q, kernel_kv, stride_q, stride_kv

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class Pool(nn.Module):
    """Tokens of a video pooled as a video is; the class token passes. Then a norm and an activation, if any.

    norm_before_pool: they come first.
    """

    def __init__(self, pool, norm, activation=None, norm_before_pool=False):
        super().__init__()
        self.pool, self.norm_before_pool = pool, norm_before_pool
        layers = [layer for layer in (norm, activation) if layer is not None]
        self.norm_act = nn.Sequential(*layers) if layers else None

    def forward(self, x, thw):
        """x: [batch, (heads,) 1 + tokens, channels]; thw: how the tokens are (frames, height, width)."""
        heads = x.ndim == 4
        x = x if heads else x.unsqueeze(1)
        token, x = x[:, :, :1], x[:, :, 1:]
        batch, number, _, channels = x.shape
        if self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        x = self.pool(x.transpose(2, 3).reshape(batch * number, channels, *thw))
        thw = x.shape[2:]
        x = flambeau.cat((token, x.reshape(batch, number, channels, -1).transpose(2, 3)), dim=2)
        if not self.norm_before_pool and self.norm_act is not None:
            x = self.norm_act(x)
        return (x if heads else x.squeeze(1)), tuple(thw)


def _distances(table, queries, keys):
    """[queries, keys, channels]: the row of the table for each distance, both counted in the finer of the two grids."""
    rows = 2 * max(queries, keys) - 1
    if table.shape[0] != rows:
        table = F.interpolate(table.t().unsqueeze(0), size=rows, mode="linear").squeeze(0).t()
    coarse_q, coarse_k = max(keys / queries, 1.0), max(queries / keys, 1.0)
    index = [[int(i * coarse_q - j * coarse_k + (keys - 1) * coarse_k) for j in range(keys)] for i in range(queries)]
    return table[flambeau.tensor(index, device=table.device)]


@fx.wrap
def _add_rel_pos(attn, q, q_thw, k_thw, rel_pos_h, rel_pos_w, rel_pos_t):
    """Scores plus, for each direction, queries times the learned vector of the distance; not of the class token."""
    batch, heads, tokens, _ = q.shape
    grid = q[:, :, 1:].reshape(batch, heads, *q_thw, -1)
    in_time, in_height, in_width = (_distances(table, a, b) for table, a, b in
                                    zip((rel_pos_t, rel_pos_h, rel_pos_w), q_thw, k_thw, strict=True))
    added = (flambeau.einsum("bnthwc,tkc->bnthwk", grid, in_time)[..., :, None, None]
             + flambeau.einsum("bnthwc,hkc->bnthwk", grid, in_height)[..., None, :, None]
             + flambeau.einsum("bnthwc,wkc->bnthwk", grid, in_width)[..., None, None, :])
    return attn + F.pad(added.reshape(batch, heads, tokens - 1, -1), (1, 0, 1, 0))


@fx.wrap
def _add_shortcut(x, shortcut, residual_with_cls_embed):
    """x plus the pooled queries, with the class token's or without."""
    if residual_with_cls_embed:
        return x + shortcut
    return x + F.pad(shortcut[:, :, 1:], (0, 0, 1, 0))


class MultiscaleAttention(nn.Module):
    """Attention between pooled queries and pooled keys; rel_pos_embed adds learned vectors of distances.

    residual_pool: the pooled queries are added to the result.
    """

    def __init__(self, input_size, embed_dim, output_dim, num_heads, kernel_q, kernel_kv, stride_q, stride_kv,
                 residual_pool, residual_with_cls_embed, rel_pos_embed, dropout=0.0, norm_layer=nn.LayerNorm):
        super().__init__()
        self.embed_dim, self.output_dim, self.num_heads = embed_dim, output_dim, num_heads
        self.head_dim, self.scaler = output_dim // num_heads, 1.0 / math.sqrt(output_dim // num_heads)
        self.residual_pool, self.residual_with_cls_embed = residual_pool, residual_with_cls_embed
        self.qkv = nn.Linear(embed_dim, 3 * output_dim)
        self.project = nn.Sequential(nn.Linear(output_dim, output_dim),
                                     *([nn.Dropout(dropout, inplace=True)] if dropout > 0.0 else []))
        self.pool_q = self._pool(kernel_q, stride_q, norm_layer)
        self.pool_k = self._pool(kernel_kv, stride_kv, norm_layer)
        self.pool_v = self._pool(kernel_kv, stride_kv, norm_layer)
        self.rel_pos_h = self.rel_pos_w = self.rel_pos_t = None
        if rel_pos_embed:
            self._tables(input_size, stride_q or (1, 1, 1), stride_kv or (1, 1, 1))

    def _pool(self, kernel, stride, norm_layer):
        if math.prod(kernel) <= 1 and math.prod(stride) <= 1:
            return None
        convolution = nn.Conv3d(self.head_dim, self.head_dim, kernel, stride, [side // 2 for side in kernel],
                                groups=self.head_dim, bias=False)
        return Pool(convolution, norm_layer(self.head_dim))

    def _tables(self, input_size, stride_q, stride_kv):
        """A vector for each distance in height, width and time."""
        space = max(input_size[1:])
        finest = max(space // stride_q[1], space // stride_kv[1])
        for name, rows in (("h", 2 * finest - 1), ("w", 2 * finest - 1), ("t", 2 * input_size[0] - 1)):
            table = nn.Parameter(flambeau.zeros(rows, self.head_dim))
            nn.init.trunc_normal_(table, std=0.02)
            setattr(self, f"rel_pos_{name}", table)

    def forward(self, x, thw):
        batch, tokens, _ = x.shape
        parts = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim).transpose(1, 3).unbind(dim=2)
        q, k, v = parts[0], parts[1], parts[2]
        k_thw = q_thw = thw
        if self.pool_k is not None:
            k, k_thw = self.pool_k(k, thw)
        if self.pool_v is not None:
            v = self.pool_v(v, thw)[0]
        if self.pool_q is not None:
            q, q_thw = self.pool_q(q, thw)
        scores = flambeau.matmul(self.scaler * q, k.transpose(2, 3))
        if self.rel_pos_h is not None:
            scores = _add_rel_pos(scores, q, q_thw, k_thw, self.rel_pos_h, self.rel_pos_w, self.rel_pos_t)
        x = flambeau.matmul(scores.softmax(dim=-1), v)
        if self.residual_pool:
            x = _add_shortcut(x, q, self.residual_with_cls_embed)
        return self.project(x.transpose(1, 2).reshape(batch, -1, self.output_dim)), q_thw


class MultiscaleBlock(nn.Module):
    """Attention and a perceptron, each after a norm and added to its input, which is pooled as the queries are.

    proj_after_attn: where the channels change: in the attention, or else in the perceptron.
    """

    def __init__(self, input_size, cnf, residual_pool, residual_with_cls_embed, rel_pos_embed, proj_after_attn,
                 dropout=0.0, stochastic_depth_prob=0.0, norm_layer=nn.LayerNorm):
        super().__init__()
        self.proj_after_attn = proj_after_attn
        self.pool_skip = None
        if math.prod(cnf.stride_q) > 1:
            kernel = [side + 1 if side > 1 else side for side in cnf.stride_q]
            self.pool_skip = Pool(nn.MaxPool3d(kernel, cnf.stride_q, [side // 2 for side in kernel]), None)
        inner = cnf.output_channels if proj_after_attn else cnf.input_channels
        self.norm1, self.norm2 = norm_layer(cnf.input_channels), norm_layer(inner)
        self.attn = MultiscaleAttention(input_size, cnf.input_channels, inner, cnf.num_heads, cnf.kernel_q,
                                        cnf.kernel_kv, cnf.stride_q, cnf.stride_kv, residual_pool,
                                        residual_with_cls_embed, rel_pos_embed, dropout, norm_layer)
        self.mlp = MLP(inner, [4 * inner, cnf.output_channels], activation_layer=nn.GELU, dropout=dropout, inplace=None)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        changes = cnf.input_channels != cnf.output_channels
        self.project = nn.Linear(cnf.input_channels, cnf.output_channels) if changes else None

    def forward(self, x, thw):
        """(the tokens, how they are (frames, height, width))."""
        normed = self.norm1(x)
        attended, smaller = self.attn(normed, thw)
        if self.project is not None and self.proj_after_attn:
            x = self.project(normed)
        x = (x if self.pool_skip is None else self.pool_skip(x, thw)[0]) + self.stochastic_depth(attended)
        normed = self.norm2(x)
        if self.project is not None and not self.proj_after_attn:
            x = self.project(normed)
        return x + self.stochastic_depth(self.mlp(normed)), smaller


class PositionalEncoding(nn.Module):
    """A class token before the others; without rel_pos_embed, learned positions in space and in time are added."""

    def __init__(self, embed_size, spatial_size, temporal_size, rel_pos_embed):
        super().__init__()
        self.spatial_size, self.temporal_size = tuple(spatial_size), temporal_size
        self.class_token = nn.Parameter(flambeau.zeros(embed_size))
        self.spatial_pos = self.temporal_pos = self.class_pos = None
        if not rel_pos_embed:
            self.spatial_pos = nn.Parameter(flambeau.zeros(math.prod(self.spatial_size), embed_size))
            self.temporal_pos = nn.Parameter(flambeau.zeros(temporal_size, embed_size))
            self.class_pos = nn.Parameter(flambeau.zeros(embed_size))

    def forward(self, x):
        token = self.class_token.expand(x.size(0), -1).unsqueeze(1)
        x = flambeau.cat((token, x), dim=1)
        if self.spatial_pos is None:
            return x
        places = (self.temporal_pos.unsqueeze(1) + self.spatial_pos.unsqueeze(0)).flatten(0, 1)
        return x + flambeau.cat((self.class_pos.unsqueeze(0), places), dim=0).unsqueeze(0)


class MViT(nn.Module):
    """Videos are (batch, 3, frames, height, width) of temporal_size and spatial_size; block_setting: MSBlockConfigs."""

    def __init__(self, spatial_size, temporal_size, block_setting, residual_pool, residual_with_cls_embed,
                 rel_pos_embed, proj_after_attn, dropout=0.5, attention_dropout=0.0, stochastic_depth_prob=0.0,
                 num_classes=400, block=None, norm_layer=None, patch_embed_kernel=(3, 7, 7),
                 patch_embed_stride=(2, 4, 4), patch_embed_padding=(1, 3, 3)):
        super().__init__()
        if not block_setting:
            raise ValueError(f"MViT: block_setting needs a block; got {shown(block_setting)}")
        norm = norm_layer or functools.partial(nn.LayerNorm, eps=1e-6)
        first, last = block_setting[0].input_channels, block_setting[-1].output_channels
        self.conv_proj = nn.Conv3d(3, first, patch_embed_kernel, patch_embed_stride, patch_embed_padding)
        size = [side // stride for side, stride in zip((temporal_size, *spatial_size), patch_embed_stride, strict=True)]
        self.pos_encoding = PositionalEncoding(first, size[1:], size[0], rel_pos_embed)
        self.blocks = nn.ModuleList()
        for k, config in enumerate(block_setting):
            chance = stochastic_depth_prob * k / (len(block_setting) - 1.0)
            self.blocks.append((block or MultiscaleBlock)(
                input_size=size, cnf=config, residual_pool=residual_pool, rel_pos_embed=rel_pos_embed,
                residual_with_cls_embed=residual_with_cls_embed, proj_after_attn=proj_after_attn,
                dropout=attention_dropout, stochastic_depth_prob=chance, norm_layer=norm))
            if config.stride_q:
                size = [side // stride for side, stride in zip(size, config.stride_q, strict=True)]
        self.norm = norm(last)
        self.head = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        self._init_weights()

    def _init_weights(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, PositionalEncoding):
                for parameter in module.parameters():
                    nn.init.trunc_normal_(parameter, std=0.02)

    def forward(self, x):
        x = x.unsqueeze(2) if x.ndim == 4 else x
        x = self.pos_encoding(self.conv_proj(x).flatten(2).transpose(1, 2))
        thw = (self.pos_encoding.temporal_size, *self.pos_encoding.spatial_size)
        for block in self.blocks:
            x, thw = block(x, thw)
        return self.head(self.norm(x)[:, 0])


def _v1_blocks():
    """Queries are pooled where the heads double, which is one block after the channels do."""
    heads, widths = [1, 2, 2, *[4] * 11, 8, 8], [96, 192, 192, *[384] * 11, 768, 768, 768]
    shrinking, strides = (1, 3, 14), [8, 4, 4, *[2] * 11, 1, 1]
    for k in range(16):
        q = ([3, 3, 3], [1, 2, 2]) if k in shrinking else ([], [])
        yield MSBlockConfig(heads[k], widths[k], widths[k + 1], q[0], [3, 3, 3], q[1], [1, strides[k], strides[k]])


def _v2_blocks():
    """Channels and heads double in the block that pools the queries."""
    heads, widths = [1, 2, 2, *[4] * 11, 8, 8], [96, 96, 192, 192, *[384] * 11, 768, 768]
    shrinking, strides = (1, 3, 14), [8, 4, 4, *[2] * 11, 1, 1]
    for k in range(16):
        stride = 2 if k in shrinking else 1
        yield MSBlockConfig(heads[k], widths[k], widths[k + 1], [3, 3, 3], [3, 3, 3], [1, stride, stride],
                            [1, strides[k], strides[k]])


def _mvit(blocks, newer, kwargs):
    options = {"spatial_size": (224, 224), "temporal_size": 16, "stochastic_depth_prob": 0.2} | kwargs
    return MViT(block_setting=list(blocks), residual_pool=newer, residual_with_cls_embed=False, rel_pos_embed=newer,
                proj_after_attn=newer, **options)


def _sizes(weights):
    """What weights are for."""
    return {"spatial_size": weights.meta["min_size"], "temporal_size": weights.meta["min_temporal_size"]}


@builder(MViT_V1_B_Weights, weighted=_sizes)
def mvit_v1_b(**kwargs):
    """MViT v1, base, for 16 frames of 224 x 224."""
    return _mvit(_v1_blocks(), False, kwargs)


@builder(MViT_V2_S_Weights, weighted=_sizes)
def mvit_v2_s(**kwargs):
    """MViT v2, small, for 16 frames of 224 x 224."""
    return _mvit(_v2_blocks(), True, kwargs)
