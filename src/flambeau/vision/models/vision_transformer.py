"""Vision transformers (Dosovitskiy et al. 2020): patches of an image as the words of a sentence."""

import functools
import math
from collections import OrderedDict, namedtuple

import flambeau
from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ..ops.misc import MLP, Conv2dNormActivation
from ._api import builder, weights_enum

__all__ = ["ViT_B_16_Weights", "ViT_B_32_Weights", "ViT_H_14_Weights", "ViT_L_16_Weights", "ViT_L_32_Weights",
           "VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"]

_enum = functools.partial(weights_enum, module=__name__)
ViT_B_16_Weights, ViT_B_32_Weights = _enum("ViT_B_16_Weights"), _enum("ViT_B_32_Weights")
ViT_L_16_Weights, ViT_L_32_Weights = _enum("ViT_L_16_Weights"), _enum("ViT_L_32_Weights")
ViT_H_14_Weights = _enum("ViT_H_14_Weights")
#: layers, heads, width, width of the perceptron
_SIZES = {"b": (12, 12, 768, 3072), "l": (24, 16, 1024, 4096), "h": (32, 16, 1280, 5120)}
_NORM = functools.partial(nn.LayerNorm, eps=1e-6)
#: one convolution of the stem that may stand for the patches (Xiao et al. 2021)
ConvStemConfig = namedtuple("ConvStemConfig", ["out_channels", "kernel_size", "stride", "norm_layer",
                                               "activation_layer"], defaults=(nn.BatchNorm2d, nn.ReLU))


class MLPBlock(MLP):
    """Two linear layers with GELU between."""

    _version = 2

    def __init__(self, in_dim, mlp_dim, dropout):
        super().__init__(in_dim, [mlp_dim, in_dim], activation_layer=nn.GELU, inplace=None, dropout=dropout)
        glorot_init(self)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if (local_metadata.get("version", None) or 1) < 2:
            for old, new in (("linear_1", "0"), ("linear_2", "3")):
                for part in ("weight", "bias"):
                    if f"{prefix}{old}.{part}" in state_dict:
                        state_dict[f"{prefix}{new}.{part}"] = state_dict.pop(f"{prefix}{old}.{part}")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def glorot_init(module):
    """Linear layers by Glorot and Bengio 2010, with biases almost zero."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.normal_(layer.bias, std=1e-6)


def _need_tokens(input):
    """Refuses what is not (batch, tokens, width)."""
    flambeau._assert(input.dim() == 3, f"VisionTransformer: tokens are (batch, tokens, width), not {input.shape}")


class EncoderBlock(nn.Module):
    """Attention and a perceptron, each after a norm and added to its input."""

    def __init__(self, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer=_NORM):
        super().__init__()
        attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=attention_dropout, batch_first=True)
        self.num_heads, self.ln_1, self.self_attention = num_heads, norm_layer(hidden_dim), attention
        self.dropout, self.ln_2 = nn.Dropout(dropout), norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input):
        _need_tokens(input)
        normed = self.ln_1(input)
        attended, _ = self.self_attention(normed, normed, normed, need_weights=False)
        x = self.dropout(attended) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Learned positions, then the blocks, then a norm."""

    def __init__(self, seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout,
                 norm_layer=_NORM):
        super().__init__()
        self.pos_embedding = nn.Parameter(flambeau.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(OrderedDict(
            (f"encoder_layer_{k}", EncoderBlock(num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer))
            for k in range(num_layers)))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input):
        _need_tokens(input)
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


def _stem(configs, hidden_dim):
    """Convolutions in place of patches, from a list of ConvStemConfig."""
    stem, channels = nn.Sequential(), 3
    for k, config in enumerate(configs):
        block = Conv2dNormActivation(channels, config.out_channels, config.kernel_size, config.stride,
                                     norm_layer=config.norm_layer, activation_layer=config.activation_layer)
        stem.add_module(f"conv_bn_relu_{k}", block)
        channels = config.out_channels
    stem.add_module("conv_last", nn.Conv2d(channels, hidden_dim, 1))
    return stem


class VisionTransformer(nn.Module):
    """Square images of image_size, cut into squares of patch_size; a class token gathers what the head reads.

    representation_size: the width of a layer before the head, if any.
    """

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout=0.0,
                 attention_dropout=0.0, num_classes=1000, representation_size=None, norm_layer=_NORM,
                 conv_stem_configs=None):
        super().__init__()
        flambeau._assert(image_size % patch_size == 0, "VisionTransformer: patches must fill the image; image_size is "
                         f"{shown(image_size)} and patch_size {shown(patch_size)}")
        self.image_size, self.patch_size, self.hidden_dim, self.mlp_dim = image_size, patch_size, hidden_dim, mlp_dim
        self.attention_dropout, self.dropout = attention_dropout, dropout
        self.num_classes, self.representation_size, self.norm_layer = num_classes, representation_size, norm_layer
        self.conv_proj = (nn.Conv2d(3, hidden_dim, patch_size, patch_size) if conv_stem_configs is None else
                          _stem(conv_stem_configs, hidden_dim))
        self.seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(flambeau.zeros(1, 1, hidden_dim))
        self.encoder = Encoder(self.seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout,
                               norm_layer)
        heads = OrderedDict()
        if representation_size is not None:
            heads["pre_logits"], heads["act"] = nn.Linear(hidden_dim, representation_size), nn.Tanh()
        heads["head"] = nn.Linear(representation_size or hidden_dim, num_classes)
        self.heads = nn.Sequential(heads)
        self._init_weights()

    def _init_weights(self):
        first = self.conv_proj if isinstance(self.conv_proj, nn.Conv2d) else None
        if first is not None:
            nn.init.trunc_normal_(first.weight, std=math.sqrt(1 / first.weight[0].numel()))
        else:
            first = self.conv_proj.conv_last
            nn.init.normal_(first.weight, std=math.sqrt(2.0 / first.out_channels))
        nn.init.zeros_(first.bias)
        if self.representation_size is not None:
            hidden = self.heads.pre_logits
            nn.init.trunc_normal_(hidden.weight, std=math.sqrt(1 / hidden.in_features))
            nn.init.zeros_(hidden.bias)
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def _process_input(self, x):
        """(batch, tokens, width) of images."""
        batch, _, height, width = x.shape
        patch, size = self.patch_size, self.image_size
        flambeau._assert(height == size, f"VisionTransformer: made for {size} pixels, and the height is {height}")
        flambeau._assert(width == size, f"VisionTransformer: made for {size} pixels, and the width is {width}")
        rows, columns = height // patch, width // patch
        return self.conv_proj(x).reshape(batch, self.hidden_dim, rows * columns).permute(0, 2, 1)

    def forward(self, x):
        x = self._process_input(x)
        batch = x.shape[0]
        token = self.class_token.expand(batch, -1, -1)
        x = self.encoder(flambeau.cat([token, x], dim=1))
        return self.heads(x[:, 0])


def interpolate_embeddings(image_size, patch_size, model_state, interpolation_mode="bicubic", reset_heads=False):
    """A state dict for images of another size: the positions resized, the head left out if reset_heads.

    model_state: changed in place where the number of patches differs, as it is given back.
    """
    key = "encoder.pos_embedding"
    batch, tokens, width = model_state[key].shape
    if batch != 1:
        raise ValueError(f"interpolate_embeddings: {key} is (1, tokens, width); got {shown(model_state[key].shape)}")
    wanted = (image_size // patch_size) ** 2 + 1
    if wanted == tokens:
        return model_state
    old, new = math.isqrt(tokens - 1), image_size // patch_size
    if old * old != tokens - 1:
        raise ValueError(f"interpolate_embeddings: the positions are not of a square image: {tokens - 1} patches")
    token, patches = model_state[key][:, :1], model_state[key][:, 1:]
    grid = F.interpolate(patches.permute(0, 2, 1).reshape(1, width, old, old), size=new, mode=interpolation_mode,
                         align_corners=True)
    model_state[key] = flambeau.cat([token, grid.reshape(1, width, new * new).permute(0, 2, 1)], dim=1)
    if not reset_heads:
        return model_state
    return OrderedDict((name, value) for name, value in model_state.items() if not name.startswith("heads"))


def _vit(size, patch, kwargs):
    return VisionTransformer(kwargs.pop("image_size", 224), patch, *_SIZES[size], **kwargs)


def _vit_builder(kind):
    return builder(kind, weighted=lambda weights: {"image_size": weights.meta["min_size"][0]})


@_vit_builder(ViT_B_16_Weights)
def vit_b_16(**kwargs):
    """The base transformer with patches of 16."""
    return _vit("b", 16, kwargs)


@_vit_builder(ViT_B_32_Weights)
def vit_b_32(**kwargs):
    """The base transformer with patches of 32."""
    return _vit("b", 32, kwargs)


@_vit_builder(ViT_L_16_Weights)
def vit_l_16(**kwargs):
    """The large transformer with patches of 16."""
    return _vit("l", 16, kwargs)


@_vit_builder(ViT_L_32_Weights)
def vit_l_32(**kwargs):
    """The large transformer with patches of 32."""
    return _vit("l", 32, kwargs)


@_vit_builder(ViT_H_14_Weights)
def vit_h_14(**kwargs):
    """The huge transformer with patches of 14."""
    return _vit("h", 14, kwargs)
