"""onnx.symbolic_opset12: the translations of symbolic_opset9, which serve every version that is written, and einsum."""

from ._opsets import translations
from .symbolic_opset9 import *  # noqa: F403

globals().update(translations("einsum"))
