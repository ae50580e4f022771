"""Custom operators: `custom_op` from a function, or `define` and `impl` by name.

A custom operator is opaque to autograd, transforms and dispatch modes, which see one call: its derivative, its shapes
without data and its batched form are what is registered for it.
"""

from ._fake_sizes import get_ctx as get_ctx
from ._library import CustomOpDef as CustomOpDef
from ._library import Library as Library
from ._library import _scoped_library as _scoped_library
from ._library import custom_op as custom_op
from ._library import define as define
from ._library import fallthrough_kernel as fallthrough_kernel
from ._library import get_kernel as get_kernel
from ._library import impl as impl
from ._library import impl_abstract as impl_abstract
from ._library import register_autocast as register_autocast
from ._library import register_autograd as register_autograd
from ._library import register_fake as register_fake
from ._library import register_kernel as register_kernel
from ._library import register_torch_dispatch as register_torch_dispatch
from ._library import register_vmap as register_vmap
from ._library import triton_op as triton_op
from ._library import wrap_triton as wrap_triton
from ._opcheck import opcheck as opcheck
from ._schema import infer_schema as infer_schema
