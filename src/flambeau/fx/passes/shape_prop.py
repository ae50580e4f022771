"""ShapeProp: runs a graph once and writes shape, dtype and layout of every result into its Node's meta."""

from typing import NamedTuple

import flambeau

from ... import _C
from ..interpreter import Interpreter
from ..node import map_aggregate


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: _C.Size
    dtype: _C.dtype
    requires_grad: bool
    stride: tuple
    memory_format: _C.memory_format | None
    is_quantized: bool
    qparams: dict


_FORMATS = (_C.contiguous_format, _C.channels_last, _C.channels_last_3d)


def _format_of(tensor):
    for memory_format in _FORMATS:
        needed = {_C.channels_last: 4, _C.channels_last_3d: 5}.get(memory_format)
        if needed in (None, tensor.dim()) and tensor.is_contiguous(memory_format=memory_format):
            return memory_format
    return None


def _quantization_of(tensor):
    scheme = tensor.qscheme()
    if scheme in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric):
        return {"qscheme": scheme, "scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    return {"qscheme": scheme, "scale": tensor.q_per_channel_scales().tolist(),
            "zero_point": tensor.q_per_channel_zero_points().tolist(), "axis": tensor.q_per_channel_axis()}


def _extract_tensor_metadata(result, include_contiguity=True):
    """The TensorMetadata of a tensor; without memory_format where include_contiguity=False."""
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, tuple(result.stride()),
                          _format_of(result) if include_contiguity else None, result.is_quantized,
                          _quantization_of(result) if result.is_quantized else {})


class ShapeProp(Interpreter):
    """Runs a GraphModule; every Node gets meta["tensor_meta"] (a TensorMetadata, or containers of them) and
    meta["type"]. With a fake_mode (a FakeTensorMode) nothing is computed.

    >>> import flambeau
    >>> from flambeau.fx.passes.shape_prop import ShapeProp
    >>> gm = flambeau.fx.symbolic_trace(lambda x: x.sum(1))
    >>> _ = ShapeProp(gm).propagate(flambeau.ones(2, 3))
    >>> [node.meta["tensor_meta"].shape for node in gm.graph.nodes]
    [torch.Size([2, 3]), torch.Size([2]), torch.Size([2])]
    """

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = self.module

    def run_node(self, n):
        """The value of a Node, whose meta it fills."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp: {n.format_node()} failed: {error}") from error
        found = []

        def look(x):
            if isinstance(x, _C.Tensor):
                found.append(x)
                return _extract_tensor_metadata(x)
            return x

        described = map_aggregate(result, look)
        if found:
            n.meta["tensor_meta"] = described
        if self.fake_mode is not None:
            n.meta["val"] = result
        n.meta["type"] = type(result)
        return result

    def fetch_attr(self, target):
        """The attribute; without values inside a fake_mode."""
        value = super().fetch_attr(target)
        return self.fake_mode.from_tensor(value) if self.fake_mode is not None and isinstance(value, _C.Tensor) \
            else value

    def propagate(self, *args):
        """Runs the module on these arguments; returns what it returns."""
        if self.fake_mode is not None:
            args = [self.fake_mode.from_tensor(a) if isinstance(a, _C.Tensor) else a for a in args]
        return super().run(*args)
