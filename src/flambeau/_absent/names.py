"""Public names of layouts, dtypes and compilers that are not available: each raises NotImplementedError when used."""

from . import STATIC, refusal

_SCRIPT = "TorchScript is not available: run the function or module as it is"
_FUNCTIONS = {
    STATIC: "quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d",
    _SCRIPT: "fork wait import_ir_module import_ir_module_from_buffer parse_ir parse_schema parse_type_comment "
             "merge_type_from_type_comment unify_type_list ScriptFunction ScriptClass",
    "files are read and written by flambeau.load and flambeau.save": "PyTorchFileReader PyTorchFileWriter",
}
FUNCTIONS = {name: refusal(name, reason) for reason, names in _FUNCTIONS.items() for name in names.split()}


class UnavailableDtype:
    """A dtype of PyTorch's that has a name here and no tensors."""

    _unavailable_dtype = True
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
