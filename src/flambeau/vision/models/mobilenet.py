"""MobileNets v2 and v3 under one name."""

from .mobilenetv2 import MobileNet_V2_Weights as MobileNet_V2_Weights
from .mobilenetv2 import MobileNetV2 as MobileNetV2
from .mobilenetv2 import mobilenet_v2 as mobilenet_v2
from .mobilenetv3 import MobileNet_V3_Large_Weights as MobileNet_V3_Large_Weights
from .mobilenetv3 import MobileNet_V3_Small_Weights as MobileNet_V3_Small_Weights
from .mobilenetv3 import MobileNetV3 as MobileNetV3
from .mobilenetv3 import mobilenet_v3_large as mobilenet_v3_large
from .mobilenetv3 import mobilenet_v3_small as mobilenet_v3_small

__all__ = ["MobileNetV2", "MobileNetV3", "MobileNet_V2_Weights", "MobileNet_V3_Large_Weights",
           "MobileNet_V3_Small_Weights", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"]
