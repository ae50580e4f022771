"""Observers: modules that see numbers go by and choose the scale with which they get codes."""

from abc import ABC, abstractmethod
from warnings import warn

import flambeau
from flambeau import nn

from ..._shown import shown
from .utils import calculate_qmin_qmax, check_min_max_valid, with_args, with_callable_args

_PER_CHANNEL = (flambeau.per_channel_affine, flambeau.per_channel_symmetric,
                flambeau.per_channel_affine_float_qparams)
_SYMMETRIC = (flambeau.per_tensor_symmetric, flambeau.per_channel_symmetric)
_KNOWN = (flambeau.quint8, flambeau.qint8, flambeau.qint32, flambeau.uint8, flambeau.int8, flambeau.int16,
          flambeau.int32, flambeau.quint4x2)
_EPS = flambeau.finfo(flambeau.float32).eps


class ObserverBase(ABC, nn.Module):
    """What observers share: the dtype of the codes, whether it is chosen anew in each call, and `with_args`."""

    with_args = classmethod(with_args)
    with_callable_args = classmethod(with_callable_args)

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x):
        """Sees x and returns it."""

    @abstractmethod
    def calculate_qparams(self):
        """(scale, zero point)."""


class UniformQuantizationObserverBase(ObserverBase):
    """Observers of the least and the largest number, from which scale and zero point follow."""

    def __init__(self, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        self.reduce_range = reduce_range
        self.register_buffer("eps", flambeau.tensor([eps], **(factory_kwargs or {})))
        if qscheme not in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric, *_PER_CHANNEL):
            raise AssertionError(f"{type(self).__name__}: unknown qscheme {shown(qscheme)}")
        if dtype not in _KNOWN:
            raise AssertionError(f"{type(self).__name__}: no codes of dtype {shown(dtype)}")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = calculate_qmin_qmax(quant_min, quant_max, self.has_customized_qrange, dtype,
                                                             reduce_range)

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        raise NotImplementedError(f"{type(self).__name__}.reset_min_max_vals is not implemented")

    def _calculate_qparams(self, min_val, max_val):
        """scale = range / number of steps, at least eps; zero_point = the code of 0 (128 or 0 if symmetric)."""
        if not check_min_max_valid(min_val, max_val):
            return flambeau.tensor([1.0], device=min_val.device), flambeau.tensor([0], device=min_val.device)
        low, high = min_val.clamp(max=0), max_val.clamp(min=0)
        steps = float(self.quant_max - self.quant_min)
        zero_point = flambeau.zeros_like(low, dtype=flambeau.int64)
        if self.qscheme in _SYMMETRIC:
            scale = flambeau.maximum(flambeau.maximum(-low, high) / (steps / 2), self.eps.to(low.dtype))
            if self.dtype in (flambeau.quint8, flambeau.uint8):
                middle = (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
                zero_point = flambeau.full_like(zero_point, middle)
        elif self.qscheme is flambeau.per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = flambeau.where(scale > self.eps, scale, flambeau.ones_like(scale))
            zero_point = -min_val / scale
        else:
            scale = flambeau.maximum((high - low) / steps, self.eps.to(low.dtype))
            zero_point = self.quant_min - flambeau.round(low / scale).to(flambeau.int)
            zero_point = zero_point.clamp(self.quant_min, self.quant_max)
        return tuple(t if t.ndim else t.reshape(1) for t in (scale, zero_point))


def _number(value, factory_kwargs=None):
    return flambeau.tensor(value, **(factory_kwargs or {}))


class MinMaxObserver(UniformQuantizationObserverBase):
    """The least and the largest number seen so far.

    >>> import flambeau
    >>> o = flambeau.ao.quantization.MinMaxObserver()
    >>> _ = o(flambeau.tensor([-1.0, 1.55]))
    >>> scale, zero_point = o.calculate_qparams()
    >>> round(scale.item(), 4), zero_point.item()
    (0.01, 100)
    """

    def __init__(self, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine, reduce_range=False, quant_min=None,
                 quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if qscheme not in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric):
            raise NotImplementedError(f"{type(self).__name__}: qscheme must be per_tensor_affine or "
                                      f"per_tensor_symmetric, got {shown(qscheme)}")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.register_buffer("min_val", _number(float("inf"), factory_kwargs))
        self.register_buffer("max_val", _number(float("-inf"), factory_kwargs))
        if qscheme is flambeau.per_tensor_symmetric and reduce_range and dtype is flambeau.quint8:
            raise NotImplementedError(f"{type(self).__name__}: reduce_range=True with symmetric codes of dtype quint8")

    def forward(self, x_orig):
        """Widens the range to what is in x; returns x."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = flambeau.aminmax(x_orig.detach().to(self.min_val.dtype))
        self.min_val.copy_(flambeau.min(low, self.min_val))
        self.max_val.copy_(flambeau.max(high, self.max_val))
        return x_orig

    def calculate_qparams(self):
        """(scale, zero point) of the range."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val.copy_(_number(float("inf")))
        self.max_val.copy_(_number(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Running averages of the least and the largest number of each call."""

    def __init__(self, averaging_constant=0.01, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine,
                 reduce_range=False, quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs):
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError("MovingAverageMinMaxObserver: is_dynamic=True forgets earlier calls, so it needs "
                                      f"averaging_constant=1, got {averaging_constant}")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)

    def forward(self, x_orig):
        """Moves the range towards that of x; returns x."""
        if x_orig.numel() == 0:
            return x_orig
        now = flambeau.aminmax(x_orig.detach().to(self.min_val.dtype))
        _moved(self, *now, self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"))
        return x_orig


def _moved(observer, low, high, fresh):
    """min_val and max_val a share closer to this call's; the first call's are taken whole."""
    share = observer.averaging_constant
    for name, now in (("min_val", low), ("max_val", high)):
        before = getattr(observer, name)
        after = now if fresh else before + share * (now - before)
        before.resize_(after.shape).copy_(after)


class RangeOfAnyShape:
    """Loading gives `min_val` and `max_val` the shapes that were saved."""

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name in ("min_val", "max_val"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class PerChannelMinMaxObserver(RangeOfAnyShape, UniformQuantizationObserverBase):
    """The least and the largest number of each channel."""

    def __init__(self, ch_axis=0, dtype=flambeau.quint8, qscheme=flambeau.per_channel_affine, reduce_range=False,
                 quant_min=None, quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if qscheme not in _PER_CHANNEL:
            raise NotImplementedError(f"{type(self).__name__}: qscheme must be one of {_PER_CHANNEL}, got "
                                      f"{shown(qscheme)}")
        if is_dynamic:
            raise NotImplementedError(f"{type(self).__name__}: is_dynamic=True is for one range per tensor")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", _number([], factory_kwargs))
        self.register_buffer("max_val", _number([], factory_kwargs))
        if qscheme is flambeau.per_channel_symmetric and reduce_range and dtype is flambeau.quint8:
            raise NotImplementedError(f"{type(self).__name__}: reduce_range=True with symmetric codes of dtype quint8")

    def _ranges(self, x):
        rows = x.detach().movedim(self.ch_axis, 0).flatten(1) if x.ndim > 1 else x.detach().reshape(-1, 1)
        return flambeau.aminmax(rows.to(self.min_val.dtype), dim=1)

    def forward(self, x_orig):
        """Widens the ranges to what is in x; returns x."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = self._ranges(x_orig)
        if self.min_val.numel():
            low, high = flambeau.min(low, self.min_val), flambeau.max(high, self.max_val)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)
        return x_orig

    def calculate_qparams(self):
        """(scales, zero points) of the channels."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val, self.max_val = flambeau.rand(0), flambeau.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Running averages of the least and the largest number of each channel."""

    def __init__(self, averaging_constant=0.01, ch_axis=0, dtype=flambeau.quint8, qscheme=flambeau.per_channel_affine,
                 reduce_range=False, quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs):
        super().__init__(ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.averaging_constant = averaging_constant

    def forward(self, x_orig):
        """Moves the ranges towards those of x; returns x."""
        if x_orig.numel() == 0:
            return x_orig
        _moved(self, *self._ranges(x_orig), self.min_val.numel() == 0 or self.max_val.numel() == 0)
        return x_orig


class FixedQParamsObserver(ObserverBase):
    """Scale and zero point that are known beforehand."""

    def __init__(self, scale, zero_point, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine, quant_min=0,
                 quant_max=255, is_dynamic=False, **kwargs):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver: what is fixed cannot be dynamic; use is_dynamic=False")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", flambeau.tensor([scale], dtype=flambeau.float))
        self.register_buffer("zero_point", flambeau.tensor([zero_point], dtype=flambeau.int))
        self.qscheme = qscheme

    def forward(self, X):
        """Returns X."""
        return X

    def calculate_qparams(self):
        """(scale, zero point)."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Sees nothing: it says which codes a later step shall make, as dynamic quantization does in each call."""

    sees_nothing = True

    def __init__(self, dtype=flambeau.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None,
                 qscheme=None, eps=None, is_dynamic=False):
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = flambeau.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.is_dynamic = True
            warn("PlaceholderObserver: compute_dtype is deprecated; use is_dynamic=True", stacklevel=2)

    def forward(self, x):
        """Returns x."""
        return x

    def extra_repr(self):
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self):
        """Refused: it has seen nothing."""
        raise RuntimeError("PlaceholderObserver: it has seen nothing, so there is no scale; use MinMaxObserver")


class RecordingObserver(ObserverBase):
    """Keeps a copy of every tensor it sees."""

    def __init__(self, dtype=flambeau.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val = []

    def forward(self, x):
        """Keeps a copy of x; returns x."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self):
        """Refused: it records."""
        raise RuntimeError("RecordingObserver: it only records, and has no scale; use MinMaxObserver")

    def get_tensor_value(self):
        """What was seen, in order."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Does nothing: for parts that are not quantized, or are only stored in another dtype."""

    def __init__(self, dtype=flambeau.float16, custom_op_name=""):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.dtype = dtype
        self.custom_op = custom_op_name

    def forward(self, x):
        """Returns x."""
        return x

    def calculate_qparams(self):
        """Refused: it has seen nothing."""
        raise RuntimeError("NoopObserver: it has seen nothing, so there is no scale; use MinMaxObserver")


class ReuseInputObserver(ObserverBase):
    """For operators that only move numbers: the output's scale is that of the input."""

    def __init__(self):
        super().__init__(flambeau.quint8, is_dynamic=False)

    def forward(self, x):
        """Returns x."""
        return x

    def calculate_qparams(self):
        """Refused: the input's observer knows."""
        raise RuntimeError("ReuseInputObserver: the observer of the input has the scale")


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=flambeau.qint8, qscheme=flambeau.per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=flambeau.qint8, qscheme=flambeau.per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=flambeau.qint8, qscheme=flambeau.per_channel_symmetric)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=flambeau.qint8, qscheme=flambeau.per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=flambeau.quint8, quant_min=0, quant_max=255, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=flambeau.quint8, qscheme=flambeau.per_channel_affine_float_qparams, ch_axis=0)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=flambeau.quint4x2, qscheme=flambeau.per_channel_affine_float_qparams, ch_axis=0)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=flambeau.quint8, quant_min=0, quant_max=255)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=flambeau.quint8, quant_min=0, quant_max=255)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


def get_observer_state_dict(mod):
    """The entries of a module's state that belong to observers."""
    return {name: value for name, value in mod.state_dict().items() if "observer" in name or
            "activation_post_process" in name}


def load_observer_state_dict(mod, obs_dict):
    """Puts back what `get_observer_state_dict` has found."""
    missing, unexpected = mod.load_state_dict(obs_dict, strict=False)
    missing = [name for name in missing if "observer" in name or "activation_post_process" in name]
    if missing or unexpected:
        raise RuntimeError(f"load_observer_state_dict: of the observers' entries {missing} are missing, and "
                           f"{list(unexpected)} belong to none")
