"""QConfig: which observers watch a module's activations and weights."""

from collections import namedtuple

import flambeau
from flambeau import nn

from ..._shown import shown
from . import fake_quantize as fake
from . import observer as seen
from .histogram import HistogramObserver


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Two makers of observers, for activations and for weights."""

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError("QConfig: expected classes (with arguments: Observer.with_args(…)), got an instance")
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The old name of a QConfig for dynamic quantization."""

    __slots__ = ()

    def __new__(cls, activation=nn.Identity, weight=nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError("QConfigDynamic: expected a class (or Observer.with_args(…)), got an instance")
        return super().__new__(cls, activation, weight)


_half = seen.PlaceholderObserver.with_args(dtype=flambeau.float16)
default_qconfig = QConfig(activation=seen.default_observer, weight=seen.default_weight_observer)
default_debug_qconfig = QConfig(weight=seen.default_weight_observer, activation=seen.default_debug_observer)
default_per_channel_qconfig = QConfig(activation=seen.default_observer,
                                      weight=seen.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(activation=seen.default_dynamic_quant_observer, weight=seen.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    activation=seen.PlaceholderObserver.with_args(dtype=flambeau.float16, is_dynamic=True), weight=_half)
float16_static_qconfig = QConfig(activation=_half, weight=_half)
per_channel_dynamic_qconfig = QConfig(activation=seen.default_dynamic_quant_observer,
                                      weight=seen.default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(activation=seen.default_placeholder_observer,
                                            weight=seen.default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(activation=seen.default_placeholder_observer,
                                                 weight=seen.default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(activation=fake.default_fake_quant, weight=fake.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(activation=fake.default_dynamic_fake_quant,
                                      weight=fake.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(activation=nn.Identity, weight=fake.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(activation=fake.default_fake_quant, weight=nn.Identity)
default_qat_qconfig_v2 = QConfig(activation=fake.default_fused_act_fake_quant,
                                 weight=fake.default_fused_wt_fake_quant)
default_embedding_qat_qconfig = QConfig(activation=seen.NoopObserver.with_args(dtype=flambeau.float32),
                                        weight=fake.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(activation=seen.NoopObserver.with_args(dtype=flambeau.float32),
                                             weight=fake.default_embedding_fake_quant_4bit)
default_reuse_input_qconfig = QConfig(activation=seen.default_reuse_input_observer, weight=seen.NoopObserver)

default_quint8_weight_qconfig = QConfig(activation=HistogramObserver, weight=seen.MinMaxObserver)

_SYMMETRIC = {"dtype": flambeau.qint8, "reduce_range": False, "eps": 2**-12}
_SYMMETRIC_SEEN = HistogramObserver.with_args(**_SYMMETRIC)
_SYMMETRIC_FAKE = fake.FusedMovingAvgObsFakeQuantize.with_args(
    observer=seen.MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_SYMMETRIC)
default_symmetric_qnnpack_qconfig = QConfig(_SYMMETRIC_SEEN, seen.weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_SYMMETRIC_SEEN,
                                                        seen.per_channel_weight_observer_range_neg_127_to_127)
default_symmetric_qnnpack_qat_qconfig = QConfig(_SYMMETRIC_FAKE, fake.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _SYMMETRIC_FAKE, fake.fused_per_channel_wt_fake_quant_range_neg_127_to_127)

#: backend -> (how its activations' range is cut down, whether its weights have one scale per channel)
_BACKENDS = {"fbgemm": ({"reduce_range": True}, True), "x86": ({"reduce_range": True}, True),
             "qnnpack": ({"reduce_range": False}, False), "onednn": ({}, True)}
#: version of the configuration for training -> the class for activations, and for weights (per tensor, per channel)
_TRAINING = {
    0: (fake.FakeQuantize, (fake.default_weight_fake_quant, fake.default_per_channel_weight_fake_quant)),
    1: (fake.FusedMovingAvgObsFakeQuantize, (fake.default_fused_wt_fake_quant,
                                             fake.default_fused_per_channel_wt_fake_quant)),
}


def _calibrating(backend):
    reduced, channels = _BACKENDS[backend]
    weight = seen.default_per_channel_weight_observer if channels else seen.default_weight_observer
    return QConfig(HistogramObserver.with_args(**{"reduce_range": False, **reduced}), weight)


def _training(backend, version):
    reduced, channels = _BACKENDS[backend]
    made, weights = _TRAINING[version]
    activation = made.with_args(observer=seen.MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced)
    return QConfig(activation, weights[channels])


_BY_BACKEND = {backend: _calibrating(backend) for backend in _BACKENDS}
_BY_BACKEND_QAT = {(backend, version): _training(backend, version) for backend in _BACKENDS for version in _TRAINING}


def get_default_qconfig(backend="x86", version=0):
    """The QConfig with which PyTorch calibrates for a backend ("x86", "fbgemm", "qnnpack", "onednn").

    >>> import flambeau
    >>> flambeau.ao.quantization.get_default_qconfig("x86").weight().qscheme
    torch.per_channel_symmetric
    """
    if version != 0 or backend not in _BACKENDS:
        raise AssertionError(f"get_default_qconfig: expected one of {sorted(_BACKENDS)} and version 0, got "
                             f"{shown(backend)} and {shown(version)}")
    return _BY_BACKEND[backend]


def get_default_qat_qconfig(backend="x86", version=1):
    """The QConfig with which PyTorch trains for a backend; version 0 observes and fakes in two steps, 1 in one.

    >>> import flambeau
    >>> flambeau.ao.quantization.get_default_qat_qconfig("x86").activation().quant_max
    127
    """
    if (backend, version) not in _BY_BACKEND_QAT:
        raise AssertionError(f"get_default_qat_qconfig: expected one of {sorted(_BACKENDS)} and version 0 or 1, got "
                             f"{shown(backend)} and {shown(version)}")
    return _BY_BACKEND_QAT[backend, version]


def qconfig_equals(q1, q2):
    """Whether two QConfigs make the same observers."""
    def parts(q):
        return None if q is None else [_made_of(maker) for maker in q]
    return parts(q1) == parts(q2)


def _made_of(maker):
    inner = getattr(maker, "p", maker)
    return (inner.func, inner.keywords) if hasattr(inner, "func") else inner
