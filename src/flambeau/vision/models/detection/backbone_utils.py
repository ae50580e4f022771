"""Networks for classification as the first part of detectors: their inner maps, and a pyramid on top of them."""

import warnings

from flambeau import nn
from flambeau._shown import shown
from flambeau.vision.ops.feature_pyramid_network import FeaturePyramidNetwork, LastLevelMaxPool
from flambeau.vision.ops.misc import FrozenBatchNorm2d

from .._api import get_model
from .._utils import IntermediateLayerGetter


class BackboneWithFPN(nn.Module):
    """Some of a network's inner maps, made into a pyramid.

    return_layers: {name of a child of the network: name of the map}. in_channels_list: the maps' channels.
    extra_blocks: what adds levels to the pyramid, one by pooling where nothing is said.
    """

    def __init__(self, backbone, return_layers, in_channels_list, out_channels, extra_blocks=None, norm_layer=None):
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers)
        self.fpn = FeaturePyramidNetwork(in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer)
        self.out_channels = out_channels

    def forward(self, x):
        """{name: map}, shallowest first."""
        return self.fpn(self.body(x))


def _check_levels(returned_layers, low, high):
    if min(returned_layers) < low or max(returned_layers) >= high:
        raise ValueError(f"returned_layers: layers are numbered from {low} to {high - 1}; got {shown(returned_layers)}")


def resnet_fpn_backbone(*, backbone_name, weights, norm_layer=FrozenBatchNorm2d, trainable_layers=3,
                        returned_layers=None, extra_blocks=None):
    """The pyramid of a ResNet, by name and weights; see BackboneWithFPN. trainable_layers: how many of its last five
    parts are trained. returned_layers: which of the four blocks the pyramid is made of, all by default."""
    backbone = get_model(backbone_name, weights=weights, norm_layer=norm_layer)
    return _resnet_fpn_extractor(backbone, trainable_layers, returned_layers, extra_blocks)


def _resnet_fpn_extractor(backbone, trainable_layers, returned_layers=None, extra_blocks=None, norm_layer=None):
    """The same of a ResNet that is there."""
    if not 0 <= trainable_layers <= 5:
        raise ValueError(f"trainable_layers must be from 0 to 5 for a ResNet, got {shown(trainable_layers)}")
    trained = ("layer4", "layer3", "layer2", "layer1", "conv1")[:trainable_layers] + ("bn1",) * (trainable_layers == 5)
    for name, parameter in backbone.named_parameters():
        if not name.startswith(trained):
            parameter.requires_grad_(False)
    levels = [1, 2, 3, 4] if returned_layers is None else returned_layers
    _check_levels(levels, 1, 5)
    channels = [backbone.inplanes // 8 * 2 ** (level - 1) for level in levels]
    names = {f"layer{level}": str(k) for k, level in enumerate(levels)}
    return BackboneWithFPN(backbone, names, channels, 256, extra_blocks, norm_layer)


def mobilenet_backbone(*, backbone_name, weights, fpn, norm_layer=FrozenBatchNorm2d, trainable_layers=2,
                       returned_layers=None, extra_blocks=None):
    """A MobileNet v2 or v3 by name and weights: with fpn a pyramid of some of its stages, otherwise its last map with
    256 channels. trainable_layers: how many of its stages are trained."""
    backbone = get_model(backbone_name, weights=weights, norm_layer=norm_layer)
    return _mobilenet_extractor(backbone, fpn, trainable_layers, returned_layers, extra_blocks)


def stages_of(features):
    """Where the stages of a MobileNet begin (each at a convolution of stride 2), and its last block."""
    return [0, *(k for k, block in enumerate(features) if getattr(block, "_is_cn", False)), len(features) - 1]


def freeze_before(features, stages, trainable_layers):
    """Only the last stages are trained."""
    count = len(stages)
    if not 0 <= trainable_layers <= count:
        raise ValueError(f"trainable_layers must be from 0 to {count} for this network, got {shown(trainable_layers)}")
    first = len(features) if trainable_layers == 0 else stages[count - trainable_layers]
    for block in features[:first]:
        for parameter in block.parameters():
            parameter.requires_grad_(False)


def _mobilenet_extractor(backbone, fpn, trainable_layers, returned_layers=None, extra_blocks=None, norm_layer=None):
    """The same of a MobileNet that is there."""
    features = backbone.features
    stages = stages_of(features)
    freeze_before(features, stages, trainable_layers)
    if not fpn:
        model = nn.Sequential(features, nn.Conv2d(features[-1].out_channels, 256, 1))
        model.out_channels = 256
        return model
    levels = [len(stages) - 2, len(stages) - 1] if returned_layers is None else returned_layers
    _check_levels(levels, 0, len(stages))
    names = {str(stages[level]): str(k) for k, level in enumerate(levels)}
    channels = [features[stages[level]].out_channels for level in levels]
    return BackboneWithFPN(features, names, channels, 256, extra_blocks, norm_layer)


def _validate_trainable_layers(is_trained, trainable_backbone_layers, max_value, default_value):
    """How many layers are trained: all of a network without weights, otherwise as many as asked for."""
    if not is_trained:
        if trainable_backbone_layers is not None:
            warnings.warn(f"trainable_backbone_layers={shown(trainable_backbone_layers)} changes nothing: without "
                          f"weights all {max_value} layers are trained", stacklevel=3)
        return max_value
    layers = default_value if trainable_backbone_layers is None else trainable_backbone_layers
    if not 0 <= layers <= max_value:
        raise ValueError(f"trainable_backbone_layers must be from 0 to {max_value}, got {shown(layers)}")
    return layers
