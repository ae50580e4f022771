"""Names of the ONNX exporter, which is not here yet; each says so when used."""

from .._absent import refusal, refused_class

_REASON = "models are not written as ONNX yet; save the module with flambeau.save"
_FUNCTIONS = """
    export
"""
_CLASSES = """
    ONNXProgram ExportOptions OnnxExporterError InputObserver
"""
globals().update({name: refusal(f"onnx.{name}", _REASON) for name in _FUNCTIONS.split()})
globals().update({name: refused_class(f"onnx.{name}", _REASON) for name in _CLASSES.split()})


def is_in_onnx_export():
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None):
    """How an operator would be written: kept by nobody, since models are not written as ONNX yet."""


unregister_custom_op_symbolic = register_custom_op_symbolic
