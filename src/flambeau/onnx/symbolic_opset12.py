"""Operators of ONNX's version 12, which are not written yet; each says so when used."""

from .._absent import refusals

globals().update(refusals("onnx.symbolic_opset12", "models are not written as ONNX yet; save the module with "
                          "flambeau.save", """
    dropout softmax einsum
"""))
