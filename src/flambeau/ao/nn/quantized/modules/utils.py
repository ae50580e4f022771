"""What quantized layers share: how weights get their codes, where scales come from, and how both are stored."""

import flambeau
from flambeau import nn


class ScaledModule(nn.Module):
    """Base of layers whose result has one `scale` and one `zero_point`: numbers, stored as tensors."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = flambeau.tensor(self.scale)
        destination[prefix + "zero_point"] = flambeau.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                              error_msgs):
        for name, kind in (("scale", float), ("zero_point", int)):
            take(state_dict, prefix + name, missing_keys, lambda value, n=name, k=kind: setattr(self, n, k(value)))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys,
                                      error_msgs)


class WeightedQuantizedModule(ScaledModule):
    """Base of layers with a quantized weight."""

    @classmethod
    def from_reference(cls, ref_module, output_scale, output_zero_point):
        """The quantized layer of a reference one, whose weight is quantized already."""
        return cls._shaped(ref_module)._like_reference(ref_module, output_scale, output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an observed float layer, or of one trained with fake quantization."""
        return cls._shaped(checked(cls, mod))._like(mod, use_precomputed_fake_quant)

    def _like_reference(self, ref_module, scale, zero_point):
        bias = None if ref_module.bias is None else ref_module.bias.detach()
        self.set_weight_bias(ref_module.get_quantized_weight(), bias)
        self.scale, self.zero_point = float(scale), int(zero_point)
        return self

    def _like(self, mod, use_precomputed_fake_quant):
        """Takes weight, bias and scale of a float layer."""
        inner = checked(type(self), mod)
        weight, bias = folded(inner)
        self.set_weight_bias(quantized_weight(weight, weight_observer(inner, mod), use_precomputed_fake_quant), bias)
        self.scale, self.zero_point = output_scale(type(self), mod, inner)
        return self


def take(state_dict, name, missing_keys, use):
    """Takes an entry out of a state dict and uses it, or notes that it is missing."""
    if name in state_dict:
        use(state_dict.pop(name))
    else:
        missing_keys.append(name)


def checked(cls, mod):
    """The layer with the weight: the module itself, or the first of those that are fused in it."""
    inner = mod[0] if isinstance(mod, nn.Sequential) and not hasattr(mod, "weight_fake_quant") else mod
    if not hasattr(mod, "weight_fake_quant") and not isinstance(inner, cls._FLOAT_MODULE):
        raise AssertionError(f"{cls.__name__}.from_float: made from a {cls._FLOAT_MODULE.__name__}, got "
                             f"{type(mod).__name__}")
    return inner


def folded(mod):
    """(weight, bias) of a layer, with the batch normalization that it was trained with."""
    bn = getattr(mod, "bn", None)
    if bn is None:
        return mod.weight, mod.bias
    fuse = nn.utils.fusion.fuse_linear_bn_weights if isinstance(mod, nn.Linear) else \
        nn.utils.fusion.fuse_conv_bn_weights
    return fuse(mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


def weight_observer(mod, outer=None):
    """The observer of a layer's weight: its fake quantization's, or a new one as its qconfig says."""
    for module in (mod, outer):
        if hasattr(module, "weight_fake_quant"):
            return module.weight_fake_quant
    for module in (mod, outer):
        config = getattr(module, "qconfig", None)
        if config is not None and config.weight is not None:
            return config.weight()
    raise AssertionError(f"from_float: {type(mod).__name__} has no qconfig that says how its weight is quantized")


def quantized_weight(weight, observer, observed=False):
    """A weight in the observer's dtype: codes by the range that the observer finds (or has found, if `observed`)."""
    weight = weight.detach()
    if observer.dtype is flambeau.float16:
        return weight.half()
    if observer.dtype is not flambeau.qint8:
        raise RuntimeError(f"quantized layers: weights become qint8 or float16, got {observer.dtype}")
    if not observed:
        observer(weight)
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (flambeau.per_tensor_symmetric, flambeau.per_tensor_affine):
        return flambeau.quantize_per_tensor(weight.float(), scale.item(), int(zero_point.item()), flambeau.qint8)
    return flambeau.quantize_per_channel(weight.float(), scale.double(), zero_point.long(), observer.ch_axis,
                                         flambeau.qint8)


def output_scale(cls, *modules):
    """(scale, zero point) that the observer of a layer's results has found."""
    for mod in modules:
        observer = getattr(mod, "activation_post_process", None)
        if observer is not None:
            scale, zero_point = observer.calculate_qparams()
            return float(scale), int(zero_point)
    raise AssertionError(f"{cls.__name__}.from_float: {type(modules[0]).__name__} has no activation_post_process; the "
                         "model must be prepared, and run on data, before it is converted")
