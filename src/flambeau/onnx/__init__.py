"""Models as ONNX files: `export` writes a model with the operators of the open standard that most runtimes read."""

from .._absent import refusals
from . import errors as errors
from . import operators as operators
from . import ops as ops
from . import symbolic_helper as symbolic_helper
from . import symbolic_opset9 as symbolic_opset9
from ._capture import is_in_onnx_export as is_in_onnx_export
from ._constants import OperatorExportTypes as OperatorExportTypes
from ._constants import TrainingMode as TrainingMode
from ._custom import register_custom_op_symbolic as register_custom_op_symbolic
from ._custom import unregister_custom_op_symbolic as unregister_custom_op_symbolic
from ._dtypes import TensorProtoDataType as TensorProtoDataType
from ._export import export as export
from ._observer import ExportableModule as ExportableModule
from ._observer import InputObserver as InputObserver
from ._program import ONNXProgram as ONNXProgram
from .errors import OnnxExporterError as OnnxExporterError

globals().update(refusals("onnx", "give export the arguments and `dynamic_shapes` themselves", """
    ExportOptions(dynamic_shapes)
"""))
