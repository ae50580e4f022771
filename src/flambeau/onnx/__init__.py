"""Names of the ONNX exporter, which is not here yet; each says so when used."""

from .._absent import refusals

_REASON = "models are not written as ONNX yet; save the module with flambeau.save"
globals().update(refusals("onnx", _REASON, """
    export
    ONNXProgram ExportOptions OnnxExporterError InputObserver
"""))


def is_in_onnx_export():
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None):
    """How an operator would be written: kept by nobody, since models are not written as ONNX yet."""


unregister_custom_op_symbolic = register_custom_op_symbolic
