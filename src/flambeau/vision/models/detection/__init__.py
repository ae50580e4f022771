"""Detectors: what is in a picture, and where."""

import importlib as _importlib

_FAMILIES = ("faster_rcnn", "fcos", "keypoint_rcnn", "mask_rcnn", "retinanet", "ssd", "ssdlite")
for _family in _FAMILIES:
    _module = _importlib.import_module(f"{__name__}.{_family}")
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
