"""What the functions that build detectors do with weights, those of the backbone, classes and trained layers."""

import functools
import inspect

from .._api import fill, fix, register_model, resolve, weights_enum
from ..mobilenetv3 import MobileNet_V3_Large_Weights
from ..resnet import ResNet50_Weights
from ._utils import overwrite_eps
from .backbone_utils import _validate_trainable_layers

_P = inspect.Parameter


class Backbone:
    """What a builder knows of its backbone: the class of its weights, those taken by default, how many layers it has
    and how many of them are trained where nothing is said."""

    def __init__(self, weights, default, layers, trained):
        self.weights, self.layers, self.trained = weights, layers, trained
        self.default = None if default is None else weights[default]


RESNET = Backbone(ResNet50_Weights, "IMAGENET1K_V1", 5, 3)
RESNET_V2 = Backbone(ResNet50_Weights, None, 5, 3)
MOBILENET = Backbone(MobileNet_V3_Large_Weights, "IMAGENET1K_V1", 6, 3)


def detector(kind, backbone, eps=None, classes=91, **decided):
    """A decorator: from `make(backbone_weights, trained, layers, num_classes, progress, **kwargs)` to a registered
    function with torchvision's arguments.

    kind: the class of the weights. eps: what FrozenBatchNorm2d was trained with, for these weights' first version.
    classes: how many, where nothing is said. decided: further arguments of the function: {name: (default, how many the
    weights have)}.
    """
    def decorate(make):
        @functools.wraps(make)
        def build(*, weights=None, progress=True, num_classes=None, weights_backbone=backbone.default,
                  trainable_backbone_layers=None, **kwargs):
            chosen = resolve(kind, weights, kwargs)
            inner = resolve(backbone.weights, weights_backbone, kwargs, "pretrained_backbone")
            for name, (default, of_weights) in decided.items():
                value = kwargs.get(name)
                if chosen is not None:
                    value = fix({name: of_weights if value is None else value}, **{name: of_weights})[name]
                kwargs[name] = default if value is None else value
            if chosen is not None:
                inner = None
                count = len(chosen.meta["categories"])
                num_classes = fix({} if num_classes is None else {"num_classes": num_classes},
                                  num_classes=count)["num_classes"]
            trained = chosen is not None or inner is not None
            layers = _validate_trainable_layers(trained, trainable_backbone_layers, backbone.layers, backbone.trained)
            model = make(inner, trained, layers, classes if num_classes is None else num_classes, progress, **kwargs)
            fill(model, chosen, progress)
            if chosen is not None and eps is not None and chosen.name == "COCO_V1":
                overwrite_eps(model, eps)
            return model

        given = {"weights": None, "progress": True, "num_classes": None,
                 **dict.fromkeys(decided), "weights_backbone": backbone.default,
                 "trainable_backbone_layers": None}
        build.__signature__ = inspect.Signature([
            *(_P(name, _P.KEYWORD_ONLY, default=value) for name, value in given.items()),
            _P("kwargs", _P.VAR_KEYWORD)])
        build._weights = kind
        return register_model()(build)
    return decorate


def published(name, module):
    """The class of a detector's published weights."""
    return weights_enum(name, module)
