"""Recurrent layers of reference."""

from flambeau import nn

from .utils import Reference, take_parameters


class _Recurrent(Reference):
    """Weights of several names; `weight_qparams_dict` is {name: the codes of that weight}."""

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def _init_weight_qparams_dict(self, weight_qparams_dict, device=None):
        given = weight_qparams_dict or {}
        self.is_decomposed = given.get("is_decomposed", False)
        for name in [name for name, _ in self.named_parameters() if name.startswith("weight")]:
            self._take_qparams(name, given.get(name) and {"is_decomposed": self.is_decomposed, **given[name]})
        if device is not None:
            self.to(device)


class _Cell(_Recurrent):
    def get_weight_ih(self):
        """The weight of the input in numbers, after its codes."""
        return self._through_codes("weight_ih")

    def get_weight_hh(self):
        """The weight of the state in numbers, after its codes."""
        return self._through_codes("weight_hh")

    def get_quantized_weight_ih(self):
        """The weight of the input as codes, or as halves."""
        return self._quantized("weight_ih")

    def get_quantized_weight_hh(self):
        """The weight of the state as codes, or as halves."""
        return self._quantized("weight_hh")

    def _weights(self):
        return self.get_weight_ih(), self.get_weight_hh(), self.bias_ih, self.bias_hh

    @classmethod
    def from_float(cls, mod, weight_qparams_dict, use_precomputed_fake_quant=False):
        """The cell of reference of a float one; the codes are those given, whatever `use_precomputed_fake_quant` is."""
        more = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        made = cls(mod.input_size, mod.hidden_size, mod.bias, **more, device=mod.weight_ih.device,
                   dtype=mod.weight_ih.dtype, weight_qparams_dict=weight_qparams_dict)
        return take_parameters(made, mod, [name for name, _ in mod.named_parameters()])


class RNNCell(_Cell, nn.RNNCell):
    """An RNNCell whose weights went through their codes."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None,
                 weight_qparams_dict=None):
        super().__init__(input_size, hidden_size, bias, nonlinearity, device, dtype)
        self._init_weight_qparams_dict(weight_qparams_dict, device)


class LSTMCell(_Cell, nn.LSTMCell):
    """An LSTMCell whose weights went through their codes."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self._init_weight_qparams_dict(weight_qparams_dict, device)


class GRUCell(_Cell, nn.GRUCell):
    """A GRUCell whose weights went through their codes."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None, weight_qparams_dict=None):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self._init_weight_qparams_dict(weight_qparams_dict, device)


class _Layers(_Recurrent):
    _ARGUMENTS = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")

    def __init__(self, *args, **kwargs):
        qparams = kwargs.pop("weight_qparams_dict", None)
        super().__init__(*args, **kwargs)
        self._init_weight_qparams_dict(qparams, kwargs.get("device"))

    def _weights(self):
        return self.get_flat_weights()

    def get_flat_weights(self):
        """All weights in numbers, after their codes, and the biases, in the order of PyTorch's."""
        return [self._through_codes(name) if name.startswith("weight") else getattr(self, name)
                for names in self._names for name in names]

    def get_quantized_weight_bias_dict(self):
        """{name: the weight as codes, or the bias}."""
        return {name: self._quantized(name) if name.startswith("weight") else getattr(self, name)
                for names in self._names for name in names}

    @classmethod
    def from_float(cls, mod, weight_qparams_dict):
        """The layers of reference of float ones."""
        projected = {"proj_size": mod.proj_size} if mod.proj_size else {}
        made = cls(*(getattr(mod, name) for name in cls._ARGUMENTS), **projected,
                   weight_qparams_dict=weight_qparams_dict)
        return take_parameters(made, mod, [name for name, _ in mod.named_parameters()])


class LSTM(_Layers, nn.LSTM):
    """An LSTM whose weights went through their codes."""


class GRU(_Layers, nn.GRU):
    """A GRU whose weights went through their codes."""
