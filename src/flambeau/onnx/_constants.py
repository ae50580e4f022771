"""The values by which programs say how a model is exported."""

from .._shown import NamedNumber

TrainingMode = NamedNumber("TrainingMode", "EVAL PRESERVE TRAINING", start=0)
OperatorExportTypes = NamedNumber("OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0)
