"""Tensor methods of other layouts, and of dtypes and devices that do not exist here: what a dense tensor answers, and
what to do instead."""

from functools import wraps

from .. import _C
from .._C import Tensor
from .._tensor.methods import method
from ..ops.kinds import OPS
from . import NESTED, QUANTIZED, refusal

#: method -> why a call raises NotImplementedError
REFUSED = {
    **dict.fromkeys(("sparse_resize_", "sparse_resize_and_clear_", "_nnz", "_indices", "_values", "_coalesced_"),
                    "the tensor is strided; to_sparse() makes it a sparse one"),
    **dict.fromkeys(("int_repr", "q_scale", "q_zero_point", "qscheme", "q_per_channel_scales",
                     "q_per_channel_zero_points", "q_per_channel_axis"), QUANTIZED),
    "to_padded_tensor": NESTED,
    "to_mkldnn": "a layout of oneDNN's own is not available: operators use oneDNN on dense tensors where it is faster",
    **{name: f"this build has no {name} device: stay on device 'cpu'" for name in ("xpu", "ipu", "mtia", "hpu")},
}

#: method -> the layout it is about
_OF_LAYOUT = {
    **dict.fromkeys(("indices", "coalesce", "is_coalesced"), "sparse coordinate"),
    **dict.fromkeys(("values",), "sparse"),
    **dict.fromkeys(("crow_indices", "col_indices"), "sparse row compressed"),
    **dict.fromkeys(("ccol_indices", "row_indices"), "sparse column compressed"),
}


def _of_layout(name, layout):
    def refuse(self):
        raise RuntimeError(f"{name}: only {layout} tensors have them, and this one is strided")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Of {layout} tensors; this one is strided."
    return refuse


#: method -> a function with its parameters
_LIKE = {
    **dict.fromkeys(("sparse_resize_", "sparse_resize_and_clear_"), lambda self, size, sparse_dim, dense_dim: None),
    **dict.fromkeys(("xpu", "ipu", "mtia", "hpu"), lambda self, device, non_blocking, memory_format: None),
    "to_padded_tensor": lambda self, padding, output_size: None,
}


def _by_kind(refuse):
    """The method of Tensor: `Tensor.indices(x)` asks the kind of tensor that x is, and refuses where it has none."""
    @wraps(refuse)
    def ask(self, *args, **kwargs):
        own = getattr(type(self), refuse.__name__, ask)
        return (refuse if ask in (own, getattr(own, "__wrapped__", None)) else own)(self, *args, **kwargs)

    return ask


for _name, _reason in REFUSED.items():
    setattr(Tensor, _name, _by_kind(refusal(_name, _reason, _LIKE.get(_name))))
for _name, _layout in _OF_LAYOUT.items():
    setattr(Tensor, _name, _by_kind(_of_layout(_name, _layout)))
for _name in ("is_ipu", "is_xla", "is_maia", "is_mtia", "is_vulkan"):
    setattr(Tensor, _name, property(lambda self: False, doc="Whether it lives on that kind of device: no."))


@method
def dequantize(self):
    """This tensor in float32: it was never quantized."""
    return self.to(_C.float32)


@method
def is_signed(self):
    """Whether the dtype holds negative numbers."""
    return self.dtype.is_signed


@method
def const_data_ptr(self):
    """The address of the first element, for reading."""
    return self.data_ptr()


@method
def module_load(self, other, assign=False):
    """What `load_state_dict` puts in this tensor's place: `other` itself (assign=True), or this tensor with its values.

    >>> import flambeau
    >>> flambeau.zeros(2).module_load(flambeau.ones(2))
    tensor([1., 1.])
    """
    return other.detach() if assign else self.detach().copy_(other)


def _grad_dtype(self):
    if not self.is_leaf:
        raise RuntimeError("grad_dtype of a tensor with a grad_fn is that of its own dtype's gradient; ask a leaf")
    return self.dtype


def _set_grad_dtype(self, value):
    if value is not None and value is not self.dtype:
        raise NotImplementedError(f"grad_dtype: gradients have the tensor's dtype ({self.dtype}); {value} is asked for")


for _name in ("graphsafe_get_state", "graphsafe_set_state"):
    setattr(_C.Generator, _name, refusal(_name, "recorded CUDA work has such states; use get_state and set_state"))
Tensor.index = OPS["index"]
Tensor.grad_dtype = property(_grad_dtype, _set_grad_dtype, doc="The dtype that `grad` has: the tensor's.")
