"""The values by which programs say how a model is exported."""

from enum import IntEnum

TrainingMode = IntEnum("TrainingMode", "EVAL PRESERVE TRAINING", start=0)
OperatorExportTypes = IntEnum("OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0)
