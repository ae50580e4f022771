"""FakeTensorMode: operators run on the `meta` device, for the sizes of the example or for sizes that are open."""

from collections import defaultdict
from weakref import WeakSet

from .. import _C
from .._tensor.overriding import TorchDispatchMode, disable_torch_dispatch
from ..ops import OPS
from ..utils._pytree import tree_map
from ._devices import FakeTensorDeviceMismatchError as FakeTensorDeviceMismatchError
from ._devices import common_device
from .fake import DataDependentOutputException as DataDependentOutputException
from .fake import DynamicOutputShapeException as DynamicOutputShapeException
from .fake import FakeTensor as FakeTensor
from .fake import UnsupportedFakeTensorException as UnsupportedFakeTensorException
from .fake import UnsupportedOperatorException as UnsupportedOperatorException
from .fake import is_fake as is_fake
from .fake import leaves, value_of
from .symbolic_rules import OF_VALUES, run_open
from .symbolic_tensor import SymbolicTensor, sizes_of


class FakeTensorMode(TorchDispatchMode):
    """Inside, operators give fake tensors, and nothing is computed.

    allow_fallback_kernels  whether an operator that cannot say how its result looks may compute it; all of them can say
    allow_non_fake_inputs   whether real tensors may meet fake ones (their values are not read); else AssertionError
    shape_env               a ShapeEnv: sizes of what from_tensor is given may then be open
    static_shapes           whether they are the example's all the same; what is left out: whether there is no shape_env
    """

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None):
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self._known = {}   # id of a tensor -> the tensor, its fake form
        self._memory = {}  # memory of such tensors, dtype -> the same without values
        self._constants = defaultdict(WeakSet)  # memory of known values -> the tensors that have it

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
        if hasattr(tensor, "__tensor_flatten__"):
            names, context = tensor.__tensor_flatten__()
            inner = {name: self.from_tensor(getattr(tensor, name), static_shapes=static_shapes,
                                            symbolic_context=symbolic_context) for name in names}
            return type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
        meta = self._without_values(tensor)
        static = self.static_shapes if static_shapes is None else static_shapes
        fake = self._open(meta, tensor, source, symbolic_context) if not static and tensor.dim() else \
            FakeTensor(meta, tensor.device, self)
        if tensor.requires_grad:
            fake.requires_grad_()
        if getattr(tensor, "_is_param", False):
            fake._is_param = True
        if tensor.is_leaf and tensor.grad is not None:
            fake.grad = self.from_tensor(tensor.grad, static_shapes=static_shapes, symbolic_context=symbolic_context)
        self._known[id(tensor)] = (tensor, fake)
        return fake

    def _without_values(self, tensor):
        """The same form on `meta`, in memory that tensors share whose memory is one."""
        with disable_torch_dispatch():
            plain = _C.Tensor.detach(tensor)
            if plain.device.type == "meta" or plain.is_conj() or plain.is_neg() or not plain.numel():
                return plain if plain.device.type == "meta" else plain.to("meta")
            key = _C.storage_id(plain), plain.dtype
            if key not in self._memory:
                count = plain.untyped_storage().nbytes() // plain.itemsize
                self._memory[key] = OPS["empty"](count, dtype=plain.dtype, device="meta")
            return self._memory[key].as_strided(plain.shape, plain.stride(), plain.storage_offset())

    def _open(self, meta, tensor, source, context):
        choose = (lambda dim, size: True) if context is None else context.chosen(self.shape_env, source)
        sizes = sizes_of(meta, self.shape_env, source, choose)
        if all(e.is_number for e in sizes[0]):
            return FakeTensor(meta, tensor.device, self)
        return SymbolicTensor(meta, tensor.device, self, *sizes)

    def after_making(self, tensor):
        """A tensor made of Python's numbers as a fake one, whose values are known."""
        if isinstance(tensor, FakeTensor) or tensor.layout is not _C.strided:
            return None
        meta = tensor if tensor.device.type == "meta" else tensor.to("meta")
        return self._know(FakeTensor(meta, tensor.device, self), tensor)

    def _know(self, fake, values):
        fake.constant = values
        self._constants[_C.storage_id(values)].add(fake)
        return fake

    def _forget(self, fake):
        """The values of a tensor, and of those that share its memory, are known no more."""
        for each in self._constants.pop(_C.storage_id(fake.constant), (fake,)):
            each.constant = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        """The fake result of an operator."""
        if getattr(func, "name", "") == "_local_scalar_dense":
            if args[0].constant is not None:
                return value_of(args[0])
            raise DataDependentOutputException(func)
        operator = getattr(func, "_operator", None)
        if operator is not None:  # of a library: what says how its result looks is made of operators itself
            with self:
                return operator.fake_result(*tree_map(self._faked, (args, kwargs)), self)
        tensors = list(_tensors((args, kwargs)))
        self._check_fake(func, tensors)
        device = self._device(func, args, kwargs, tensors)
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
            result = self._run_without_values(func, inner_args, inner_kwargs)
        if getattr(func, "is_inplace", False) and not isinstance(args[0], FakeTensor):
            args[0]._bump_version()  # a real tensor's values stay, and it counts as written
        return self._outer(result, device, args, kwargs, self._computed(func, args, kwargs, result))

    def _run_without_values(self, func, args, kwargs):
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            if getattr(func, "name", "") in OF_VALUES:
                raise DynamicOutputShapeException(func) from error
            raise

    def _computed(self, func, args, kwargs, result):
        """The values of a result: of one number or of a view, where those of all tensors in the call are known."""
        tensors = list(_tensors((args, kwargs)))
        known = [isinstance(t, FakeTensor) and t.constant is not None for t in tensors]
        if True not in known:
            return None
        writes = getattr(func, "is_inplace", False)
        small = isinstance(result, _C.Tensor) and (result.numel() <= 1 or writes or func.kind == "view")
        if small and all(known) and not func.random and "out" not in kwargs:
            with disable_torch_dispatch():
                return func(*tree_map(_values, args), **tree_map(_values, kwargs))
        for t in (args[0],) if writes else leaves(kwargs.get("out")):
            if isinstance(t, FakeTensor) and t.constant is not None:
                self._forget(t)
        return None

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

    def _check_fake(self, func, tensors):
        if self.allow_non_fake_inputs:
            return
        for t in tensors:
            if t.dim() and not isinstance(t, FakeTensor):  # derivative rules make tensors of numbers
                raise AssertionError(
                    f"{getattr(func, 'name', func)}: a tensor with values, of shape {list(t.shape)}, meets fake ones; "
                    "make it fake with mode.from_tensor, or the mode with FakeTensorMode(allow_non_fake_inputs=True)")

    def _device(self, func, args, kwargs, tensors):
        asked = kwargs.get("device")
        if asked is not None:
            return _C.device(asked)
        return common_device(func, tensors, list(_tensors(args[:1]))) if tensors else _C.device("cpu")

    def _outer(self, result, device, args, kwargs, values):
        written = {id(a.meta): a for a in leaves(args, kwargs) if isinstance(a, FakeTensor)}

        def wrap(value):
            if not isinstance(value, _C.Tensor) or isinstance(value, FakeTensor):
                return value
            if id(value) in written:
                return _resized(written[id(value)])
            fake = FakeTensor(value, device, self)
            if kwargs.get("requires_grad"):
                fake.requires_grad_()
            return fake if values is None else self._know(fake, values)

        return tree_map(wrap, result)


def _tensors(values):
    return (a for a in leaves(values) if isinstance(a, _C.Tensor))


def _values(value):
    return value.constant if isinstance(value, FakeTensor) else value


def _resized(fake):
    """The tensor, which out= or resize_ may have given another shape."""
    if fake.shape != fake.meta.shape:
        fake._become(fake.meta)
    return fake
