"""Control flow under the private names by which programs know it."""

from .. import _C
from .._absent import refusals
from ..control_flow import associative_scan as associative_scan
from ..control_flow import cond as cond
from ..control_flow import map as map
from ..control_flow import scan as scan
from ..control_flow import while_loop as while_loop


def out_dtype(op, output_dtype, *args):
    """op(*args), computed in `output_dtype`, so that a product of int8 matrices has int32 sums.

    >>> import flambeau
    >>> from flambeau._higher_order_ops import out_dtype
    >>> a = flambeau.full((1, 2), 100, dtype=flambeau.int8)
    >>> out_dtype(flambeau.ops.aten.mm.default, flambeau.int32, a, a.t())
    tensor([[20000]], dtype=torch.int32)
    """
    return op(*(a.to(output_dtype) if isinstance(a, _C.Tensor) else a for a in args))


globals().update(refusals("_higher_order_ops", "kernels are not written in a GPU's assembly language here",
                          "inline_asm_elementwise"))
