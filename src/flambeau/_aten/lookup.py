"""Which function of this library is the operator that a program of PyTorch's calls by a name of `aten`."""

from functools import cache

import flambeau

from .. import _C
from ..ops.namespaces import READINGS, Overload, _ReadingPacket, operator_of
from .forms import TENSORS
from .overloads import value_of

#: functions of the package that are no records of operators
FUNCTIONS = frozenset("""
    _shape_as_tensor as_tensor broadcast_shapes can_cast ccol_indices_copy col_indices_copy crow_indices_copy
    dequantize fake_quantize_per_channel_affine fake_quantize_per_tensor_affine get_autocast_dtype hspmm indices_copy
    initial_seed int_repr is_autocast_enabled is_complex is_conj is_floating_point is_grad_enabled is_inference
    is_nonzero is_signed manual_seed numel q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point qscheme quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic row_indices_copy seed
    smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
    sparse_csr_tensor sspaddmm tensor values_copy
""".split())
#: methods of tensors that are no records of operators
_METHODS = frozenset("""
    __and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ _indices _nnz _values
    backward ccol_indices coalesce col_indices cpu crow_indices cuda dense_dim detach_ dim element_size indices
    is_coalesced is_contiguous is_pinned is_set_to item pin_memory polygamma_ requires_grad_ resize_ retain_grad
    row_indices sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_ storage_offset swapaxes_ to_dense
    to_mkldnn to_sparse to_sparse_bsc to_sparse_bsr to_sparse_csc to_sparse_csr type_as values float double half
    bfloat16 int long short char bool byte get_device nelement expand_as ndimension
""".split())
#: names of older forms, and the operators that they are
_ALIASES = {"nll_loss_nd": "nll_loss", "nll_loss2d": "nll_loss"}


def of_tensors(name):
    """The operator of tensors under a name, or None."""
    name = _ALIASES.get(name, name)
    if name in TENSORS:
        return TENSORS[name]
    found = getattr(flambeau, name, None)
    if isinstance(found, _C.Op) or (callable(found) and (name in FUNCTIONS or name.startswith("_foreach_"))):
        return found
    found = operator_of("aten", name)
    if found is not None:
        return found
    for space in ("linalg", "fft", "special"):
        found = getattr(getattr(flambeau, space), name[len(space) + 1:], None)
        if name.startswith(f"{space}_") and isinstance(found, _C.Op):
            return found
    return getattr(_C.Tensor, name, None) if name in _METHODS else None


class AtenOverload(Overload):
    """One overload of an operator of aten's that this library has in another form: called with aten's arguments."""

    def __init__(self, name, overload, function):
        self.__name__ = f"{name}.{overload}"
        self._overloadname, self._function = overload, function
        self.namespace, self.op_name, self._opname = "aten", name, name
        self.overloadpacket, self.tags = self, ()

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def name(self):
        """The qualified name, with the overload."""
        return f"{self.qualified}.{self._overloadname}"

    @property
    def qualified(self):
        """The name with its namespace: "aten::to"."""
        return f"aten::{self.op_name}"


#: operators with a form of their own in TorchScript's texts that take aten's arguments as they are
_AS_THEY_ARE = frozenset("alias slice mT numpy_T contiguous div linspace".split())


def _masks(indices):
    """Whether a mask is among indices, which then are of a size that values decide."""
    return any(t is not None and t.dtype in (flambeau.bool, flambeau.uint8) for t in map(value_of, indices))


#: {operator: whether it takes these arguments as they are}
_SOMETIMES = {"where": lambda *args: len(args) == 3, "view": lambda *args: len(args) == 2,
              "index": lambda x, indices: not _masks(indices)}


def aten(name, overload, args):
    """What a call of `aten.name.overload` with these arguments by place calls here: the operator where it takes the
    same arguments, else an AtenOverload; None where there is neither."""
    return _found(name, overload, name not in TENSORS or name in _AS_THEY_ARE or (
        name in _SOMETIMES and args is not None and _SOMETIMES[name](*args)))


@cache
def _found(name, overload, plain):
    if name == "item":
        return READINGS["item"]
    found = TENSORS[name] if not plain else operator_of("aten", name) if name in TENSORS else of_tensors(name)
    found = getattr(found, "_op", found)
    if isinstance(found, _ReadingPacket):
        return getattr(found, overload, None)
    return found if found is None or isinstance(found, _C.Op) else AtenOverload(name, overload, found)
