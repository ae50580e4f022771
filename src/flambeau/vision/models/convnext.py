"""ConvNeXt (Liu et al. 2022): convolutions arranged as transformers are."""

import functools

import flambeau
from flambeau import nn
from flambeau._shown import shown
from flambeau.nn import functional as F

from ..ops.misc import Conv2dNormActivation, Permute
from ..ops.stochastic_depth import StochasticDepth
from ._api import builder, weights_enum
from ._utils import init

_enum = functools.partial(weights_enum, module=__name__)
ConvNeXt_Tiny_Weights, ConvNeXt_Small_Weights = _enum("ConvNeXt_Tiny_Weights"), _enum("ConvNeXt_Small_Weights")
ConvNeXt_Base_Weights, ConvNeXt_Large_Weights = _enum("ConvNeXt_Base_Weights"), _enum("ConvNeXt_Large_Weights")

__all__ = ["ConvNeXt", "ConvNeXt_Base_Weights", "ConvNeXt_Large_Weights", "ConvNeXt_Small_Weights",
           "ConvNeXt_Tiny_Weights", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny"]


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of images."""

    def forward(self, x):
        last = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return last.permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """7x7 per channel, then a perceptron of each pixel; scaled per channel and added to the input."""

    def __init__(self, dim, layer_scale, stochastic_depth_prob, norm_layer=None):
        super().__init__()
        norm = norm_layer or functools.partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(nn.Conv2d(dim, dim, 7, padding=3, groups=dim), Permute([0, 2, 3, 1]), norm(dim),
                                   nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(flambeau.full((dim, 1, 1), float(layer_scale)))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input):
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig:
    """A stage: channels, channels after it (None for the last one), blocks."""

    def __init__(self, input_channels, out_channels, num_layers):
        self.input_channels, self.out_channels, self.num_layers = input_channels, out_channels, num_layers

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class ConvNeXt(nn.Module):
    """block_setting: a CNBlockConfig per stage. The chance of leaving a block out grows to stochastic_depth_prob."""

    def __init__(self, block_setting, stochastic_depth_prob=0.0, layer_scale=1e-6, num_classes=1000, block=None,
                 norm_layer=None):
        super().__init__()
        if not block_setting:
            raise ValueError(f"ConvNeXt: block_setting needs a stage; got {shown(block_setting)}")
        if not all(isinstance(stage, CNBlockConfig) for stage in block_setting):
            raise TypeError(f"ConvNeXt: block_setting is a list of CNBlockConfig; got {shown(block_setting)}")
        block, norm = block or CNBlock, norm_layer or functools.partial(LayerNorm2d, eps=1e-6)
        layers = [Conv2dNormActivation(3, block_setting[0].input_channels, 4, 4, 0, norm_layer=norm,
                                       activation_layer=None, bias=True)]
        total, done = sum(stage.num_layers for stage in block_setting), 0
        for stage in block_setting:
            width, wider = stage.input_channels, stage.out_channels
            chances = [stochastic_depth_prob * k / (total - 1.0) for k in range(done, done + stage.num_layers)]
            layers.append(nn.Sequential(*(block(width, layer_scale, chance) for chance in chances)))
            done += stage.num_layers
            if wider is not None:
                layers.append(nn.Sequential(norm(width), nn.Conv2d(width, wider, 2, 2)))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        last = wider if wider is not None else width
        self.classifier = nn.Sequential(norm(last), nn.Flatten(1), nn.Linear(last, num_classes))
        normal = functools.partial(nn.init.trunc_normal_, std=0.02)
        init(self, normal, normal, norms=False)

    def forward(self, x):
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(widths, depths, stochastic_depth_prob, kwargs):
    stages = [CNBlockConfig(*stage) for stage in zip(widths, [*widths[1:], None], depths, strict=True)]
    return ConvNeXt(stages, kwargs.pop("stochastic_depth_prob", stochastic_depth_prob), **kwargs)


@builder(ConvNeXt_Tiny_Weights)
def convnext_tiny(**kwargs):
    """ConvNeXt, tiny."""
    return _convnext((96, 192, 384, 768), (3, 3, 9, 3), 0.1, kwargs)


@builder(ConvNeXt_Small_Weights)
def convnext_small(**kwargs):
    """ConvNeXt, small."""
    return _convnext((96, 192, 384, 768), (3, 3, 27, 3), 0.4, kwargs)


@builder(ConvNeXt_Base_Weights)
def convnext_base(**kwargs):
    """ConvNeXt, base."""
    return _convnext((128, 256, 512, 1024), (3, 3, 27, 3), 0.5, kwargs)


@builder(ConvNeXt_Large_Weights)
def convnext_large(**kwargs):
    """ConvNeXt, large."""
    return _convnext((192, 384, 768, 1536), (3, 3, 27, 3), 0.5, kwargs)
