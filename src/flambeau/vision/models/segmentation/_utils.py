"""What segmentation networks share: a backbone, a classifier of its last result, perhaps one of an earlier result."""

from flambeau import nn
from flambeau.nn import functional as F

from .._utils import IntermediateLayerGetter


def resized(x, size):
    """Images of another size, by bilinear interpolation."""
    return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def norm_relu(width, *more, inplace=False):
    """What follows a convolution."""
    return nn.BatchNorm2d(width), nn.ReLU(inplace=inplace), *more


class _SimpleSegmentationModel(nn.Module):
    """Gives {"out": scores per pixel} and, with an aux_classifier, {"aux": those of the earlier result}."""

    def __init__(self, backbone, classifier, aux_classifier=None):
        super().__init__()
        self.backbone, self.classifier, self.aux_classifier = backbone, classifier, aux_classifier

    def forward(self, x):
        size = x.shape[-2:]
        features = self.backbone(x)
        results = {"out": resized(self.classifier(features["out"]), size)}
        if self.aux_classifier is not None:
            results["aux"] = resized(self.aux_classifier(features["aux"]), size)
        return results


def with_auxiliary(weights):
    """With weights there is always the second classifier, since the files have it."""
    return {"aux_loss": weights is not None}


def resnet_parts(make, aux, weights_backbone, progress):
    """(backbone, channels of its last result, channels of the earlier one) of a ResNet that dilates its last stages."""
    network = make(weights=weights_backbone, progress=progress, replace_stride_with_dilation=[False, True, True])
    layers = {"layer4": "out"} | ({"layer3": "aux"} if aux else {})
    return IntermediateLayerGetter(network, layers), 2048, 1024


def mobilenet_parts(make, earlier, weights_backbone, progress, last="out"):
    """(backbone, channels of its last result, channels of the one at an eighth of the size) of a dilated MobileNet v3.

    earlier: what the latter is called, None without.
    """
    features = make(weights=weights_backbone, progress=progress, dilated=True).features
    strides = [0, *(k for k, block in enumerate(features) if getattr(block, "_is_cn", False)), len(features) - 1]
    end, middle = strides[-1], strides[-4]
    layers = {str(end): last} | ({str(middle): earlier} if earlier else {})
    return IntermediateLayerGetter(features, layers), features[end].out_channels, features[middle].out_channels
