"""Running a model that was exported: by onnxruntime, or by the interpreter of the `onnx` package."""

import os
import tempfile

import flambeau

from .. import _C
from . import _proto
from ._dtypes import REAL_PARTS


def to_array(value, dtype):
    """A tensor or number as the array that a runtime takes."""
    if not isinstance(value, _C.Tensor):
        return flambeau.tensor(value, dtype=dtype).numpy()
    value = value.detach().cpu()
    if value.dtype in REAL_PARTS:
        value = flambeau.view_as_real(value)
    if value.dtype is _C.bfloat16:
        import ml_dtypes  # comes with onnx
        return value.contiguous().view(_C.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def to_tensor(array, dtype):
    """An array of a runtime as a tensor of this dtype."""
    if array.dtype.name == "bfloat16":
        return flambeau.tensor(array.view("int16")).view(_C.bfloat16)
    made = flambeau.tensor(array)
    return flambeau.view_as_complex(made) if dtype in REAL_PARTS else made


def default_session(model):
    """A session of onnxruntime on the CPU, of a model's bytes or of its path."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def session_of(program, initializer):
    """A session of a runtime; a model that no message holds goes by way of a file."""
    if _proto.fits(program._graph):
        return initializer(program.model_proto.SerializeToString())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        program.save(path, external_data=True)
        return initializer(path)


def has_onnxruntime():
    """Whether onnxruntime is installed."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return False
    return onnxruntime is not None


def interpreter(model):
    """The interpreter of the `onnx` package."""
    _proto.package()
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model)
