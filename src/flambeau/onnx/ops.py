"""onnx.ops"""
