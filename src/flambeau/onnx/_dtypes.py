"""Which dtype of ONNX stands for which dtype here, and the bytes of a tensor in a file."""

from .. import _C
from .._shown import NamedNumber

TensorProtoDataType = NamedNumber("TensorProtoDataType", """
    UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128
    BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ""", start=0)

#: a complex tensor is a real one with one dimension more, which holds the real and the imaginary part
REAL_PARTS = {_C.complex64: _C.float32, _C.complex128: _C.float64}
_NAMES = {
    "float32": "FLOAT", "uint8": "UINT8", "int8": "INT8", "uint16": "UINT16", "int16": "INT16", "int32": "INT32",
    "int64": "INT64", "bool": "BOOL", "float16": "FLOAT16", "float64": "DOUBLE", "uint32": "UINT32",
    "uint64": "UINT64", "bfloat16": "BFLOAT16", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8_e5m2": "FLOAT8E5M2", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
}
NUMBERS = {getattr(_C, name): int(TensorProtoDataType[its]) for name, its in _NAMES.items() if hasattr(_C, name)}
DTYPES = {number: dtype for dtype, number in NUMBERS.items()}


def number_of(dtype):
    """The number by which a file knows a dtype."""
    dtype = REAL_PARTS.get(dtype, dtype)
    if dtype not in NUMBERS:
        raise NotImplementedError(f"onnx.export: ONNX has no tensors of {dtype}; convert the tensor before")
    return NUMBERS[dtype]


def raw_bytes(tensor):
    """The elements of a tensor in the order of a file, as bytes."""
    tensor = tensor.detach().cpu()
    if tensor.dtype in REAL_PARTS:
        tensor = tensor.reshape(-1).view(REAL_PARTS[tensor.dtype])  # pairs of parts lie side by side
    tensor = tensor.contiguous()
    if tensor.numel() == 0:
        return b""
    if tensor.dtype is not _C.bool:
        tensor = tensor.reshape(-1).view(_C.uint8)
    return tensor.numpy().tobytes()
