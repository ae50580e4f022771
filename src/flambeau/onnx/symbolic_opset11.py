"""onnx.symbolic_opset11: operators of ONNX, which are not written yet; packages import the name."""
