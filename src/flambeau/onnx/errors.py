"""onnx.errors: what the exporter raises."""


class OnnxExporterError(RuntimeError):
    """A model could not be written as ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """Operators of a model have no form in ONNX."""


class SymbolicValueError(OnnxExporterError):
    """A translation got a value that it does not take."""


class OnnxExporterWarning(UserWarning):
    """Something about an export that is worth knowing."""
