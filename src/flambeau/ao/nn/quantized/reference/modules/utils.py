"""Layers of reference: weights stay numbers, and each call takes them through the codes of a quantized layer."""

import flambeau

_KEYS = ("scale", "zero_point", "axis")
_AS_SAVED = ("qscheme", "dtype")
_PER_TENSOR = {"qscheme": flambeau.per_tensor_affine, "dtype": flambeau.quint8, "scale": 1.0, "zero_point": 0}
_CHANNELS = (flambeau.per_channel_affine, flambeau.per_channel_affine_float_qparams)
_SCHEMES = {flambeau.per_tensor_affine: (flambeau.quint8, flambeau.qint8, flambeau.qint32),
            flambeau.per_channel_affine: (flambeau.quint8, flambeau.qint8),
            flambeau.per_channel_affine_float_qparams: (flambeau.quint8, flambeau.quint4x2)}


def _buffer(value, dtype):
    return value.detach().clone() if isinstance(value, flambeau.Tensor) else flambeau.tensor(value, dtype=dtype)


class Reference:
    """Mixed into a float layer: for each weight the scale, zero point and dtype of its codes, as buffers beside it."""

    _IS_REFERENCE = True

    def _take_qparams(self, name, qparams):
        """The codes of the weight `name`: {"qscheme", "dtype", "scale", "zero_point", "axis"}, as from observers."""
        qparams = _PER_TENSOR if qparams is None else qparams
        scheme = qparams["qscheme"]
        self.is_decomposed = qparams.get("is_decomposed", False)
        if self.is_decomposed:
            raise NotImplementedError("layers of reference: is_decomposed=True is not supported; use quantized tensors "
                                      "(is_decomposed=False)")
        if scheme is not None and scheme not in _SCHEMES:
            raise AssertionError(f"{self._get_name()}: the weight's qscheme must be None or one of "
                                 f"{', '.join(map(str, _SCHEMES))}, got {scheme}")
        axis = qparams.get("axis", 0) if scheme in _CHANNELS else 0
        setattr(self, name + "_qscheme", scheme)
        setattr(self, name + "_dtype", qparams["dtype"])
        self.register_buffer(name + "_scale", _buffer(qparams.get("scale", 1.0), flambeau.float))
        self.register_buffer(name + "_zero_point", _buffer(qparams.get("zero_point", 0), flambeau.int))
        self.register_buffer(name + "_axis", flambeau.tensor(axis, dtype=flambeau.int))
        setattr(self, name + "_axis_int", axis)

    def _quantized(self, name):
        """The weight `name` as codes, or as halves."""
        weight, scheme, dtype = (getattr(self, name + part) for part in ("", "_qscheme", "_dtype"))
        scale, zero_point = getattr(self, name + "_scale"), getattr(self, name + "_zero_point")
        if dtype is flambeau.float16:
            return weight.to(flambeau.float16)
        if dtype not in _SCHEMES.get(scheme, ()):
            raise ValueError(f"{self._get_name()}: weights cannot have codes of dtype {dtype} with {scheme}")
        if scheme in _CHANNELS:
            return flambeau.quantize_per_channel(weight, scale, zero_point, getattr(self, name + "_axis_int"), dtype)
        return flambeau.quantize_per_tensor(weight, scale, zero_point, dtype)

    def _through_codes(self, name):
        """The weight `name` in numbers, after its codes."""
        if getattr(self, name + "_qscheme") is None and getattr(self, name + "_dtype") is not flambeau.float16:
            return getattr(self, name)
        found = self._quantized(name)
        return found.float() if found.dtype is flambeau.float16 else found.dequantize()


class ReferenceQuantizedModule(Reference):
    """Mixed into a float layer with one weight."""

    def _init_weight_qparams(self, weight_qparams, device=None):
        self._take_qparams("weight", weight_qparams)
        for name in ("quant_min", "quant_max"):
            setattr(self, "weight_" + name, (weight_qparams or {}).get(name))
        if device is not None:
            self.to(device)

    def get_weight(self):
        """The weight in numbers, after its codes."""
        return self._through_codes("weight")

    def get_quantized_weight(self):
        """The weight as codes, or as halves."""
        return self._quantized("weight")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for key in _AS_SAVED:
            destination[f"{prefix}weight_{key}"] = getattr(self, f"weight_{key}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, *more):
        for key in (*_AS_SAVED, *_KEYS):
            name = f"weight_{key}"
            if prefix + name in state_dict:
                setattr(self, name, state_dict.pop(prefix + name))
        self.weight_axis_int = int(self.weight_axis)
        found = []
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, found, *more)
        missing_keys.extend(key for key in found if key.removeprefix(prefix) not in {f"weight_{k}" for k in _KEYS})


def take_parameters(made, layer, names=("weight", "bias")):
    """Copies of the float layer's parameters."""
    for name in names:
        value = getattr(layer, name)
        if value is not None:
            setattr(made, name, flambeau.nn.Parameter(value.detach()))
    return made
