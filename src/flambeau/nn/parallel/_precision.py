"""Which dtypes a module computes and exchanges gradients in under DistributedDataParallel: `mixed_precision`."""

from dataclasses import dataclass

import flambeau

from ... import _C
from ...utils._pytree import tree_map


@dataclass
class _MixedPrecision:
    """Dtypes of parameters and inputs in forward and backward, of gradients where they are exchanged, of buffers.

    The module's own parameters, and their gradients after backward, keep their dtype. What is left out stays as it is;
    without a reduce_dtype gradients are exchanged in param_dtype.

    >>> import flambeau
    >>> from flambeau.nn.parallel.distributed import _MixedPrecision
    >>> _MixedPrecision(param_dtype=flambeau.bfloat16).exchanged
    torch.bfloat16
    """

    param_dtype: _C.dtype = None
    reduce_dtype: _C.dtype = None
    buffer_dtype: _C.dtype = None

    @property
    def exchanged(self):
        """The dtype in which gradients are added up; None: that of their parameters."""
        return self.param_dtype if self.reduce_dtype is None else self.reduce_dtype


def cast_buffers(module, dtype, ignored):
    """Floating-point buffers become those of that dtype, for good."""
    for name, x in module.named_buffers() if dtype is not None else ():
        if x.is_floating_point() and name not in ignored:
            x.data = x.detach().to(dtype)


def called(module, dtype, ignored, inputs, kwargs):
    """module(*inputs, **kwargs) with parameters and inputs in another dtype: gradients come back in their own."""
    parameters = {name: p.to(dtype) for name, p in module.named_parameters()
                  if p.is_floating_point() and name not in ignored}
    inputs, kwargs = tree_map(lambda x: x.to(dtype) if isinstance(x, _C.Tensor) and x.is_floating_point() else x,
                              (inputs, kwargs))
    return flambeau.func.functional_call(module, parameters, tuple(inputs), kwargs)
