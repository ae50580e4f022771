"""onnx.symbolic_opset11: the translations of symbolic_opset9, which serve every version that is written."""

from .symbolic_opset9 import *  # noqa: F403
