"""LSTM and attention on codes: the observed layers of `quantizable`, whose parts have been converted."""

import flambeau

from ... import quantizable


def _converted(cls, other):
    if not isinstance(other, cls._FLOAT_MODULE):
        raise AssertionError(f"{cls.__name__}.from_observed: made from a quantizable {cls.__name__}, got "
                             f"{type(other).__name__}")
    made = flambeau.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
    made.__class__ = cls
    return made


def _no_float(cls):
    raise NotImplementedError(f"{cls.__name__}: it is made from an observed layer; prepare() the model, run it on "
                              "data, then convert() it")


class LSTM(quantizable.LSTM):
    """An LSTM on codes, made from an observed one by `convert`."""

    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args, **kwargs):
        """Refused: it is made from an observed layer."""
        _no_float(cls)

    @classmethod
    def from_observed(cls, other):
        """The layer on codes of an observed one."""
        return _converted(cls, other)


class MultiheadAttention(quantizable.MultiheadAttention):
    """Attention on codes, made from an observed one by `convert`."""

    _FLOAT_MODULE = quantizable.MultiheadAttention

    def _get_name(self):
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other):
        """Refused: it is made from an observed layer."""
        _no_float(cls)

    @classmethod
    def from_observed(cls, other):
        """The layer on codes of an observed one; what is added to keys and values gets codes over its own range."""
        made = _converted(cls, other)
        for name in ("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            setattr(made, name, None)  # they are in the quantized projections
        for name in ("bias_k", "bias_v"):
            bias = made._parameters.pop(name, None)
            if bias is not None:
                scale, zero_point = flambeau._choose_qparams_per_tensor(bias, False)
                bias = flambeau.quantize_per_tensor(bias.detach(), scale, zero_point, flambeau.quint8)
            setattr(made, name, bias)
        return made
