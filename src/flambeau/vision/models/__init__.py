"""Models under torchvision's names: what builds them, their published weights, and the registry of both."""

import importlib as _importlib

from . import feature_extraction as feature_extraction
from ._api import Weights as Weights
from ._api import WeightsEnum as WeightsEnum
from ._api import get_model as get_model
from ._api import get_model_builder as get_model_builder
from ._api import get_model_weights as get_model_weights
from ._api import get_weight as get_weight
from ._api import list_models as list_models

_FAMILIES = ("alexnet", "convnext", "densenet", "efficientnet", "googlenet", "inception", "maxvit", "mnasnet",
             "mobilenet", "regnet", "resnet", "shufflenetv2", "squeezenet", "swin_transformer", "vgg",
             "vision_transformer")
for _family in _FAMILIES:
    _module = _importlib.import_module(f"{__name__}.{_family}")
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
for _family in ("detection", "optical_flow", "quantization", "segmentation", "video"):  # made of those above
    _importlib.import_module(f"{__name__}.{_family}")
