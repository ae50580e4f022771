"""Modules for training with quantization in mind: numbers pass through their codes and back, with gradients."""

from abc import ABC, abstractmethod

import flambeau
from flambeau import nn

from .histogram import HistogramObserver
from .observer import (
    FixedQParamsObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import with_args

_LEAST_SCALE = 6.1e-5
_PER_CHANNEL = (flambeau.per_channel_symmetric, flambeau.per_channel_affine,
                flambeau.per_channel_affine_float_qparams)


class FakeQuantizeBase(ABC, nn.Module):
    """Two switches, as tensors in the state: whether ranges are observed, whether numbers are changed."""

    with_args = classmethod(with_args)

    def __init__(self):
        super().__init__()
        self.register_buffer("fake_quant_enabled", flambeau.tensor([1], dtype=flambeau.uint8))
        self.register_buffer("observer_enabled", flambeau.tensor([1], dtype=flambeau.uint8))

    @abstractmethod
    def forward(self, x):
        """x through its codes."""

    @abstractmethod
    def calculate_qparams(self):
        """(scale, zero point)."""

    def enable_fake_quant(self, enabled=True):
        """Lets numbers through their codes, or (False) through unchanged."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Lets numbers through unchanged."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Observes ranges, or (False) keeps the scale."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Keeps the scale."""
        self.enable_observer(False)


class FakeQuantize(FakeQuantizeBase):
    """Numbers through their codes and back, with the scale of an observer; the gradient goes straight through where the
    code is in the range.

    >>> import flambeau
    >>> fake = flambeau.ao.quantization.FakeQuantize(quant_min=0, quant_max=3, averaging_constant=1.0)
    >>> fake(flambeau.tensor([0.0, 0.4, 3.0]))
    tensor([0., 0., 3.])
    """

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False,
                 **observer_kwargs):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError(f"FakeQuantize: quant_min {quant_min} is above quant_max {quant_max}")
            self._check_range(observer, quant_min, quant_max, observer_kwargs)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        seen = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = seen.quant_min, seen.quant_max, is_dynamic
        kind = flambeau.float if seen.qscheme is flambeau.per_channel_affine_float_qparams else flambeau.int
        self.register_buffer("scale", flambeau.tensor([1.0], dtype=flambeau.float))
        self.register_buffer("zero_point", flambeau.tensor([0], dtype=kind))
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis = getattr(seen, "ch_axis", -1)
        self.is_per_channel = self.qscheme in _PER_CHANNEL

    @staticmethod
    def _check_range(observer, quant_min, quant_max, kwargs):
        dtype = kwargs.get("dtype", getattr(getattr(observer, "p", None), "keywords", {}).get("dtype",
                                                                                             flambeau.quint8))
        known = {flambeau.quint8: (0, 255), flambeau.qint8: (-128, 127), flambeau.uint8: (0, 255),
                 flambeau.int8: (-128, 127)}.get(dtype)
        if known and not known[0] <= quant_min <= quant_max <= known[1]:
            raise AssertionError(f"FakeQuantize: codes from {quant_min} to {quant_max} do not fit into {dtype}")

    def calculate_qparams(self):
        """(scale, zero point) of the observer."""
        return self.activation_post_process.calculate_qparams()

    def _take(self, scale, zero_point):
        for own, new in ((self.scale, scale), (self.zero_point, zero_point)):
            own.resize_(new.shape).copy_(new)

    def forward(self, X):
        """X through its codes, as far as the switches say."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            self._take(*self.calculate_qparams())
        if self.fake_quant_enabled[0] != 1:
            return X
        codes = self.scale.clone(), self.zero_point.clone()  # another call may change them before backward reads them
        if self.is_per_channel:
            return flambeau.fake_quantize_per_channel_affine(X, *codes, self.ch_axis, self.quant_min, self.quant_max)
        return flambeau.fake_quantize_per_tensor_affine(X, *codes, self.quant_min, self.quant_max)

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
                f"quant_min={self.quant_min}, quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
                f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}")

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name in ("scale", "zero_point"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Fake quantization whose scale and zero point are known beforehand."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError("FixedQParamsFakeQuantize: the observer must be a FixedQParamsObserver, got "
                                 f"{type(self.activation_post_process).__name__}")
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point
        if self.qscheme not in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric):
            raise AssertionError(f"FixedQParamsFakeQuantize: one scale per tensor is supported, got {self.qscheme}")

    def calculate_qparams(self):
        """(scale, zero point)."""
        return self.scale, self.zero_point

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
                f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
                f"quant_min={self.quant_min}, quant_max={self.quant_max}, qscheme={self.qscheme}")


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Fake quantization by running averages of the range, whose scale follows PyTorch's fused operator: symmetric codes
    use the one more that there is below 0."""

    def __init__(self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **observer_kwargs):
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(self.activation_post_process, (MovingAverageMinMaxObserver,
                                                         MovingAveragePerChannelMinMaxObserver)):
            raise AssertionError("FusedMovingAvgObsFakeQuantize: the observer must keep moving averages, got "
                                 f"{type(self.activation_post_process).__name__}")
        self.register_buffer("fake_quant_enabled", flambeau.tensor([1], dtype=flambeau.long))
        self.register_buffer("observer_enabled", flambeau.tensor([1], dtype=flambeau.long))
        self.is_symmetric_quant = self.activation_post_process.qscheme in (flambeau.per_channel_symmetric,
                                                                           flambeau.per_tensor_symmetric)

    def extra_repr(self):
        return (f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
                f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
                f"quant_min={self.activation_post_process.quant_min}, "
                f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
                f"reduce_range={self.activation_post_process.reduce_range}")

    def calculate_qparams(self):
        """(scale, zero point) of the observer's range, in the order of operations of the fused operator."""
        seen = self.activation_post_process
        ranges = zip(seen.min_val.reshape(-1).tolist(), seen.max_val.reshape(-1).tolist(), strict=True)
        pairs = [_chosen(low, high, self.quant_min, self.quant_max, self.is_symmetric_quant) for low, high in ranges]
        scales, zero_points = zip(*pairs, strict=True)
        return flambeau.tensor(scales), flambeau.tensor(zero_points, dtype=flambeau.int)


def _chosen(low, high, quant_min, quant_max, symmetric):
    """(scale, zero point) of one range; as in dynamic layers, the end that is less off decides the zero point."""
    low, high = min(low, 0.0), max(high, 0.0)
    both = symmetric and low < 0 < high
    if both:
        most = (quant_max - quant_min) // 2
        scale = max(abs(low / (most + 1)), abs(high / most))
        low, high = -scale * (most + 1), scale * most
    scale = (high - low) / (quant_max - quant_min)
    if scale == 0.0 or scale < 1e-38:
        scale = 0.1
    if scale < _LEAST_SCALE:
        low, high = low * _LEAST_SCALE / scale, high * _LEAST_SCALE / scale
        scale = _LEAST_SCALE
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    off_low, off_high = abs(quant_min) - abs(low / scale), abs(quant_max) - abs(high / scale)
    zero = (quant_min + quant_max + 1) // 2 if both else from_low if off_low < off_high else from_high
    return scale, round(min(max(zero, quant_min), quant_max))


_ACTIVATIONS = {"observer": MovingAverageMinMaxObserver, "quant_min": 0, "quant_max": 255, "dtype": flambeau.quint8}
_WEIGHTS = {"quant_min": -128, "quant_max": 127, "dtype": flambeau.qint8}
_ROWS = {"observer": MovingAveragePerChannelMinMaxObserver, "qscheme": flambeau.per_channel_affine_float_qparams,
         "ch_axis": 0, "averaging_constant": 1}

default_fake_quant = FakeQuantize.with_args(**_ACTIVATIONS, qscheme=flambeau.per_tensor_affine, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_WEIGHTS, qscheme=flambeau.per_tensor_symmetric, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(**_ACTIVATIONS, is_dynamic=True, averaging_constant=1)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, **_WEIGHTS, qscheme=flambeau.per_channel_symmetric,
    reduce_range=False, ch_axis=0)
default_embedding_fake_quant = FakeQuantize.with_args(**_ROWS, dtype=flambeau.quint8, quant_min=0, quant_max=255)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**_ROWS, dtype=flambeau.quint4x2)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine,
    reduce_range=True)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ACTIVATIONS)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_WEIGHTS, qscheme=flambeau.per_tensor_symmetric)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, **_WEIGHTS, qscheme=flambeau.per_channel_symmetric)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-127, quant_max=127, dtype=flambeau.qint8,
    qscheme=flambeau.per_tensor_symmetric, eps=2**-12)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-127, quant_max=127, dtype=flambeau.qint8,
    qscheme=flambeau.per_channel_symmetric, eps=2**-12)


def _switch(name, doc):
    def switch(mod):
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = doc + "; for `model.apply`."
    return switch


disable_fake_quant = _switch("disable_fake_quant", "Lets numbers through unchanged")
enable_fake_quant = _switch("enable_fake_quant", "Lets numbers through their codes")
disable_observer = _switch("disable_observer", "Keeps the scale")
enable_observer = _switch("enable_observer", "Observes ranges")
