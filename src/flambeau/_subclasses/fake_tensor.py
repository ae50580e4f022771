"""FakeTensorMode: operators run on the `meta` device, for the sizes of the example or for sizes that are open."""

from .. import _C
from .._tensor.overriding import TorchDispatchMode, disable_torch_dispatch
from ..utils._pytree import tree_map
from .fake import DataDependentOutputException as DataDependentOutputException
from .fake import DynamicOutputShapeException as DynamicOutputShapeException
from .fake import FakeTensor as FakeTensor
from .fake import UnsupportedFakeTensorException as UnsupportedFakeTensorException
from .fake import is_fake as is_fake
from .fake import leaves
from .symbolic_rules import run_open
from .symbolic_tensor import SymbolicTensor, sizes_of


class FakeTensorMode(TorchDispatchMode):
    """Inside, operators give fake tensors, and nothing is computed.

    allow_non_fake_inputs  real tensors may meet fake ones; allowed in any case, since their values are not read
    shape_env              a ShapeEnv: sizes of what from_tensor is given may then be open
    static_shapes          whether they are the example's all the same; what is left out: whether there is no shape_env
    """

    def __init__(self, *, allow_non_fake_inputs=True, shape_env=None, static_shapes=None):
        super().__init__()
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self._known = {}

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None):
        """The fake form of a tensor: the same each time for the same tensor.

        static_shapes     whether its sizes are the example's; what is left out: as the mode says
        source            what messages call it
        symbolic_context  which sizes are open (StatelessSymbolicContext); what is left out: all
        """
        if isinstance(tensor, FakeTensor):
            return tensor
        found = self._known.get(id(tensor))
        if found is not None and found[0] is tensor:
            return found[1]
        if tensor.layout is not _C.strided:
            raise UnsupportedFakeTensorException(f"from_tensor: a {tensor.layout} tensor has no fake form")
        meta = _C.Tensor.detach(tensor)
        meta = meta.to("meta") if meta.device.type != "meta" else meta
        static = self.static_shapes if static_shapes is None else static_shapes
        fake = self._open(meta, tensor, source, symbolic_context) if not static and tensor.dim() else \
            FakeTensor(meta, tensor.device, self)
        if tensor.requires_grad:
            fake.requires_grad_()
        self._known[id(tensor)] = (tensor, fake)
        return fake

    def _open(self, meta, tensor, source, context):
        choose = (lambda dim, size: True) if context is None else context.chosen(self.shape_env, source)
        sizes = sizes_of(meta, self.shape_env, source, choose)
        if all(e.is_number for e in sizes[0]):
            return FakeTensor(meta, tensor.device, self)
        return SymbolicTensor(meta, tensor.device, self, *sizes)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """The fake result of an operator."""
        if getattr(func, "name", "") == "_local_scalar_dense":
            raise DataDependentOutputException(func)
        operator = getattr(func, "_operator", None)
        if operator is not None:  # of a library: what says how its result looks is made of operators itself
            with self:
                return operator.fake_result(*tree_map(self._faked, (args, kwargs)), self)
        device = self._device(args, kwargs)
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "meta"}
        elif not any(isinstance(a, _C.Tensor) for a in leaves(args)):
            kwargs = {**kwargs, "device": "meta"} if "device" in func.schema else kwargs
        if self.shape_env is not None:
            result = run_open(self, func, args, kwargs, device)
            if result is not NotImplemented:
                return result
        inner_args, inner_kwargs = tree_map(self._inner, (args, kwargs))
        with disable_torch_dispatch():  # this mode may have been entered more than once
            result = func(*inner_args, **inner_kwargs)
        if getattr(func, "is_inplace", False) and not isinstance(args[0], FakeTensor):
            args[0]._bump_version()  # a real tensor's values stay, and it counts as written
        return self._outer(result, device, args, kwargs)

    def _inner(self, value):
        if isinstance(value, FakeTensor):
            return value.meta
        if isinstance(value, _C.Tensor) and value.device.type != "meta":
            return value.to("meta")
        if isinstance(value, _C.device):
            return _C.device("meta")
        return value

    def _faked(self, value):
        real = isinstance(value, _C.Tensor) and not isinstance(value, FakeTensor)
        return self.from_tensor(value, static_shapes=True) if real else value

    def _device(self, args, kwargs):
        asked = kwargs.get("device")
        if asked is not None:
            return _C.device(asked)
        tensors = [a for a in leaves(args, kwargs) if isinstance(a, _C.Tensor)]
        dimensioned = [t for t in tensors if t.dim()] or tensors
        return dimensioned[0].device if dimensioned else _C.device("cpu")

    def _outer(self, result, device, args, kwargs):
        written = {id(a.meta): a for a in leaves(args, kwargs) if isinstance(a, FakeTensor)}

        def wrap(value):
            if not isinstance(value, _C.Tensor) or isinstance(value, FakeTensor):
                return value
            return written[id(value)] if id(value) in written else FakeTensor(value, device, self)

        return tree_map(wrap, result)
