"""Public names of layouts, dtypes and compilers that are not available: each raises NotImplementedError when used;
and names that PyTorch has no more."""

from .. import _C
from . import refusals

_TYPES = "programs of TorchScript have Python's types here: write float, int, list[Tensor], Tensor"
_SCRIPT = "a program of TorchScript is its text here: flambeau.jit.CompilationUnit makes functions of it"
FUNCTIONS = {
    **refusals("", _SCRIPT, """
    parse_ir(input, parse_tensor_constants) parse_type_comment merge_type_from_type_comment unify_type_list ScriptClass
    """),
    **refusals("", _TYPES, """
    AnyType BoolType ComplexType DeviceObjType DictType EnumType FloatType FutureType IntType InterfaceType ListType
    NoneType NumberType OptionalType PyObjectType RRefType StreamObjType StringType TensorType TupleType UnionType
    """),
}

#: functions of old versions of PyTorch -> what stands for them today
REMOVED = {
    "symeig": "linalg.eigh", "eig": "linalg.eig", "lstsq": "linalg.lstsq", "gels": "linalg.lstsq",
    "solve": "linalg.solve", "gesv": "linalg.solve", "matrix_rank": "linalg.matrix_rank", "potrf": "linalg.cholesky",
    "trtrs": "linalg.solve_triangular", "btrifact": "linalg.lu_factor", "btrisolve": "linalg.lu_solve",
    "rfft": "fft.rfft", "irfft": "fft.irfft", "ifft": "fft.ifft",
}


class UnavailableDtype:
    """A dtype of PyTorch's that has a name here and no tensors."""

    _unavailable_dtype = True
    __class__ = property(lambda self: _C.dtype, doc="`isinstance(x, flambeau.dtype)` holds, as for every dtype.")
    _refused = "a dtype of which there are no tensors here"

    def __init__(self, name, itemsize=1, is_floating_point=False, is_complex=False):
        self.name, self.itemsize = name, itemsize
        self.is_floating_point, self.is_complex = is_floating_point, is_complex
        self.is_signed = not name.startswith(("uint", "quint", "bit"))

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return find, (self.name,)


DTYPES = {name: UnavailableDtype(name) for name in (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)),
    "bit", "bits1x8", "bits2x4", "bits4x2", "bits8", "quint4x2", "quint2x4")}
DTYPES["bits16"] = UnavailableDtype("bits16", 2)
DTYPES["bcomplex32"] = UnavailableDtype("bcomplex32", 4, False, True)


def find(name):
    """What stands behind an unavailable name; None where PyTorch has no such name either."""
    return FUNCTIONS.get(name) or DTYPES.get(name)


def hint(name):
    """What to write in the place of a name that PyTorch has no more, for the text of an AttributeError."""
    return f"; it is gone from PyTorch, which has {REMOVED[name]} now" if name in REMOVED else ""
