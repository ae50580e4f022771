"""torchvision's models for int8: their weights' facts are here, the networks are not, and say so when asked for."""

from .._api import register_model, weights_enum

_NAMES = {"googlenet": "GoogLeNet", "inception_v3": "Inception_V3", "mobilenet_v2": "MobileNet_V2",
          "mobilenet_v3_large": "MobileNet_V3_Large", "resnet18": "ResNet18", "resnet50": "ResNet50",
          "resnext101_32x8d": "ResNeXt101_32X8D", "resnext101_64x4d": "ResNeXt101_64X4D",
          "shufflenet_v2_x0_5": "ShuffleNet_V2_X0_5", "shufflenet_v2_x1_0": "ShuffleNet_V2_X1_0",
          "shufflenet_v2_x1_5": "ShuffleNet_V2_X1_5", "shufflenet_v2_x2_0": "ShuffleNet_V2_X2_0"}


def _refusal(name, kind):
    """The function that would build the model."""
    def build(*, weights=None, progress=True, quantize=False, **kwargs):
        asked = {"weights": weights, "progress": progress, "quantize": quantize} | kwargs
        raise NotImplementedError(
            f"models.quantization.{name}({', '.join(asked)}): the published int8 networks are not built, and their "
            f"files hold weights packed for fbgemm or qnnpack; build models.{name} and quantize it with "
            "flambeau.ao.quantization")

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{name} for int8: refused."
    build._weights = kind
    return register_model(f"quantized_{name}")(build)


for _name, _title in _NAMES.items():
    _kind = globals()[f"{_title}_QuantizedWeights"] = weights_enum(f"{_title}_QuantizedWeights", __name__)
    globals()[_name] = _refusal(_name, _kind)
FOUND = {name: value for name, value in globals().items() if name in _NAMES or name.endswith("_QuantizedWeights")}
