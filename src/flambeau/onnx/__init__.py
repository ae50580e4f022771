"""Names of the ONNX exporter, which is not here yet; each says so when used."""

from enum import IntEnum

from .._absent import refusals
from . import operators as operators

_REASON = "models are not written as ONNX yet; save the module with flambeau.save"
globals().update(refusals("onnx", _REASON, """
    export(model, args, f, kwargs, verbose, input_names, output_names, opset_version, dynamo, external_data,
    dynamic_shapes, custom_translation_table, report, optimize, verify, profile, dump_exported_program,
    artifacts_dir, export_params, keep_initializers_as_inputs, dynamic_axes, training, operator_export_type,
    do_constant_folding, custom_opsets, export_modules_as_functions, autograd_inlining) ONNXProgram(model,
    exported_program) ExportOptions OnnxExporterError InputObserver(value_if_missing)
"""))


#: how a model is exported, and what its tensors are in a file: the values that programs pass
TrainingMode = IntEnum("TrainingMode", "EVAL PRESERVE TRAINING", start=0)
OperatorExportTypes = IntEnum("OperatorExportTypes", "ONNX ONNX_ATEN ONNX_ATEN_FALLBACK ONNX_FALLTHROUGH", start=0)
TensorProtoDataType = IntEnum("TensorProtoDataType", """
    UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128
    BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ""", start=0)


def is_in_onnx_export():
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version, custom_opsets=None):
    """How an operator would be written: kept by nobody, since models are not written as ONNX yet."""


unregister_custom_op_symbolic = register_custom_op_symbolic
