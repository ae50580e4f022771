"""What layers of quantization-aware training share: a weight that passes through its codes in each call."""

from flambeau import nn

_parametrize = nn.utils.parametrize


class FakeWeight:
    """Mixed into a float layer: `qconfig`, and `weight_fake_quant`, the fake quantization that it makes."""

    _FLOAT_MODULE = None

    def _take_qconfig(self, qconfig, device=None):
        if not qconfig:
            raise AssertionError(f"qat.{type(self).__name__}: expected a qconfig whose `weight` makes "
                                 f"the fake quantization, got {qconfig}")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()
        if device is not None:
            self.weight_fake_quant.to(device)

    def _faked_weight(self):
        return self.weight_fake_quant(self.weight)

    @classmethod
    def _checked(cls, mod):
        """Refuses modules of other classes, and those without a qconfig."""
        kind = _parametrize.type_before_parametrizations(mod)
        if kind is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float: expected a {cls._FLOAT_MODULE.__name__}, got "
                                 f"{kind.__name__}")
        if not getattr(mod, "qconfig", None):
            raise AssertionError(f"qat.{cls.__name__}.from_float: the {kind.__name__} has no qconfig; set one, or use "
                                 "prepare_qat()")

    def _share(self, layer):
        """Trains the parameters of the float layer themselves."""
        for name in ("weight", "bias"):
            if _parametrize.is_parametrized(layer, name):
                _parametrize.transfer_parametrizations_and_params(layer, self, name)
            elif hasattr(layer, name):
                setattr(self, name, getattr(layer, name))


def conv_arguments(conv):
    """The arguments with which a convolution like this one is made."""
    return {"in_channels": conv.in_channels, "out_channels": conv.out_channels, "kernel_size": conv.kernel_size,
            "stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation, "groups": conv.groups,
            "bias": conv.bias is not None, "padding_mode": conv.padding_mode}


def float_copy(layer, made):
    """`made`, a new float layer, with this layer's numbers and mode."""
    made.weight = nn.Parameter(layer.weight.detach())
    if layer.bias is not None:
        made.bias = nn.Parameter(layer.bias.detach())
    return made.train(layer.training)
