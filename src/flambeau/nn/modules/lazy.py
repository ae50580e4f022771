"""Lazy layers: the number of inputs is taken from the first call, and the layer then becomes an ordinary one."""

from ... import int64, tensor
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Linear


class LazyModuleMixin:
    """Calls initialize_parameters with the inputs before the first forward; then the class is `cls_to_become`."""

    __slots__ = ()

    cls_to_become = None
    _counts = None  # the attribute that the first call fills in; None in lazy layers of others

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(LazyModuleMixin._infer_parameters, with_kwargs=True)

    def has_uninitialized_params(self):
        """Whether some parameter or buffer still waits for its shape."""
        return any(is_lazy(t) for table in (self._parameters, self._buffers) for t in table.values())

    def initialize_parameters(self, *inputs, **named):
        """Give every tensor its shape from the inputs of the first call, and its initial values."""
        raise NotImplementedError(f"{type(self).__name__} must have a method initialize_parameters that gives its "
                                  "tensors their shapes")

    def reset_parameters(self):
        if self._counts is None or (not self.has_uninitialized_params() and getattr(self, self._counts) != 0):
            super().reset_parameters()

    def _infer_parameters(self, args, kwargs=None):
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise RuntimeError(f"{type(self).__name__}: its parameters get their shapes from a first input; call it "
                               "once before this")
        hooks = self._forward_pre_hooks
        for key in [key for key, hook in hooks.items() if hook is LazyModuleMixin._infer_parameters]:
            del hooks[key]
            self._forward_pre_hooks_with_kwargs.pop(key, None)
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _wait(self, made, *names):
        for name in names:
            setattr(self, name, UninitializedParameter(**made))


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose in_features is the size of the last dimension at the first call.

    >>> import flambeau
    >>> layer = flambeau.nn.LazyLinear(2)
    >>> _ = layer(flambeau.zeros(1, 3))
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = Linear
    _counts = "in_features"

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self.out_features = out_features
        self._wait({"device": device, "dtype": dtype}, "weight", *(["bias"] if bias else []))

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        elif self.in_features == 0:  # loaded from a state dict
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    __slots__ = ()

    _counts = "in_channels"

    def _set_up(self, out_channels, bias, device, dtype):
        self.out_channels = out_channels
        self._wait({"device": device, "dtype": dtype}, "weight", *(["bias"] if bias else []))

    def initialize_parameters(self, input, *_, **__):
        if self.has_uninitialized_params():
            n = self._dims
            if input.dim() not in (n + 1, n + 2):
                raise RuntimeError(
                    f"{type(self).__name__}: input must have {n + 2} dimensions, or {n + 1} without a batch, got shape "
                    f"{list(input.shape)}"
                )
            self.in_channels = input.shape[-n - 1]
            if self.in_channels % self.groups != 0:
                raise ValueError(f"{type(self).__name__}: in_channels={self.in_channels} cannot be divided into "
                                 f"groups={self.groups}")
            pair = (self.out_channels, self.in_channels)
            first, second = reversed(pair) if self.transposed else pair
            self.weight.materialize((first, second // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        elif self.in_channels == 0:
            size = self.weight.shape[0 if self.transposed else 1]
            self.in_channels = size if self.transposed else size * self.groups


def _lazy_convolution(base):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        _LazyConv.__init__(self, 0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._set_up(out_channels, bias, device, dtype)

    return _lazy_class(base, _LazyConv, __init__)


def _lazy_transposed(base):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
                 dilation=1, padding_mode="zeros", device=None, dtype=None):
        _LazyConv.__init__(
            self, 0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode
        )
        self._set_up(out_channels, bias, device, dtype)

    return _lazy_class(base, _LazyConv, __init__)


class _LazyNorm(LazyModuleMixin):
    __slots__ = ()

    _counts = "num_features"

    def _set_up(self, affine, track_running_stats, device, dtype, bias):
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        self._wait(made, *(["weight"] if affine else []), *(["bias"] if affine and bias else []))
        if track_running_stats:
            for name in ("running_mean", "running_var"):
                self.register_buffer(name, UninitializedBuffer(**made))
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def initialize_parameters(self, input):
        if self.has_uninitialized_params():
            self.num_features = input.shape[0 if self._takes_single and input.dim() == self._allowed_dims[0] else 1]
            for table in (self._parameters, self._buffers):
                for member in table.values():
                    if is_lazy(member):
                        member.materialize((self.num_features,))
            self.reset_parameters()

    def reset_running_stats(self):
        if not self.has_uninitialized_params():
            super().reset_running_stats()


def _lazy_norm(base, single):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                 bias=True):
        _LazyNorm.__init__(self, 0, eps, momentum, False, False)
        self._set_up(affine, track_running_stats, device, dtype, bias)

    return _lazy_class(base, _LazyNorm, __init__, _takes_single=single)


def _lazy_class(base, mixin, init, **members):
    name = "Lazy" + base.__name__
    doc = f"{base.__name__} whose number of input channels is taken from the first call."
    init.__qualname__ = f"{name}.__init__"
    members |= {"__init__": init, "__doc__": doc, "__module__": __name__, "cls_to_become": base}
    return type(name, (mixin, base), members)


LazyConv1d = _lazy_convolution(Conv1d)
LazyConv2d = _lazy_convolution(Conv2d)
LazyConv3d = _lazy_convolution(Conv3d)
LazyConvTranspose1d = _lazy_transposed(ConvTranspose1d)
LazyConvTranspose2d = _lazy_transposed(ConvTranspose2d)
LazyConvTranspose3d = _lazy_transposed(ConvTranspose3d)
LazyBatchNorm1d = _lazy_norm(BatchNorm1d, False)
LazyBatchNorm2d = _lazy_norm(BatchNorm2d, False)
LazyBatchNorm3d = _lazy_norm(BatchNorm3d, False)
LazyInstanceNorm1d = _lazy_norm(InstanceNorm1d, True)
LazyInstanceNorm2d = _lazy_norm(InstanceNorm2d, True)
LazyInstanceNorm3d = _lazy_norm(InstanceNorm3d, True)
