"""Operators of ONNX's version 9, which are not written yet; each says so when used."""

from .._absent import refusals

globals().update(refusals("onnx.symbolic_opset9", "models are not written as ONNX yet; save the module with "
                          "flambeau.save", """
    softmax masked_fill add sub mul div relu sigmoid dropout linear log_softmax
"""))
