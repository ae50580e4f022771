"""Operators of ONNX's version 11, which are not written yet; each says so when used."""

from .._absent import refusals

globals().update(refusals("onnx.symbolic_opset11", "models are not written as ONNX yet; save the module with "
                          "flambeau.save", """
    unsqueeze squeeze select add sub mul
"""))
