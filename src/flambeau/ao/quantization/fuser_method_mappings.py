"""Which layers are computed together, and what takes their place: in training a fused layer that keeps its parts, in
evaluation one layer whose weights contain the batch norm."""

import itertools

from flambeau import nn

from ..nn import intrinsic as nni
from .utils import MatchAllNode, get_combined_dict

_CONV_BN = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_CONV_BN_RELU = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_CONV_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _checked(name, is_qat, layer, bn, features):
    if layer.training != bn.training:
        raise AssertionError(f"{name}: the layer and its batch norm must be in the same mode; call model.train() or "
                             "model.eval()")
    if is_qat and bn.num_features != features:
        raise AssertionError(f"{name}: the batch norm is for {bn.num_features} features, the layer gives {features}")
    if is_qat and not (bn.affine and bn.track_running_stats):
        raise AssertionError(f"{name}: for training, the batch norm needs affine=True and track_running_stats=True")


def _by_class(name, classes, layer):
    if type(layer) not in classes:
        raise NotImplementedError(f"{name}: there is no fused class for {type(layer).__name__}; expected one of "
                                  f"{', '.join(kind.__name__ for kind in classes)}")
    return classes[type(layer)]


def fuse_conv_bn(is_qat, conv, bn):
    """A convolution and its batch norm: a ConvBn for training (`is_qat`), one convolution in evaluation mode.

    >>> import flambeau
    >>> nn = flambeau.nn
    >>> flambeau.ao.quantization.fuse_conv_bn(False, nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval())
    Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    """
    _checked("fuse_conv_bn", is_qat, conv, bn, conv.out_channels)
    if is_qat:
        return _by_class("fuse_conv_bn", _CONV_BN, conv)(conv, bn)
    return nn.utils.fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat, conv, bn, relu):
    """A convolution, its batch norm and ReLU: a ConvBnReLU for training (`is_qat`), a ConvReLU in evaluation mode."""
    _checked("fuse_conv_bn_relu", is_qat, conv, bn, conv.out_channels)
    if is_qat:
        return _by_class("fuse_conv_bn_relu", _CONV_BN_RELU, conv)(conv, bn, relu)
    return _by_class("fuse_conv_bn_relu", _CONV_RELU, conv)(nn.utils.fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat, linear, bn):
    """A linear layer and its batch norm: a LinearBn1d for training (`is_qat`), one Linear in evaluation mode."""
    _checked("fuse_linear_bn", is_qat, linear, bn, linear.out_features)
    if is_qat:
        return nni.LinearBn1d(linear, bn)
    return nn.utils.fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat, convt, bn):
    """A transposed convolution and its batch norm: one layer in evaluation mode; there is none for training."""
    _checked("fuse_convtranspose_bn", False, convt, bn, convt.out_channels)
    if is_qat:
        raise Exception("fuse_convtranspose_bn: there is no layer for training; quantize after training (model.eval())")
    return nn.utils.fuse_conv_bn_eval(convt, bn, transpose=True)


def _as(made):
    """A fuser that puts the layers into a Sequential of class `made`."""
    def fuser(is_qat, *layers):
        return made(*layers)

    return fuser


_DEFAULT_OP_LIST_TO_FUSER_METHOD = {
    (nn.Conv1d, nn.BatchNorm1d): fuse_conv_bn,
    (nn.Conv1d, nn.BatchNorm1d, nn.ReLU): fuse_conv_bn_relu,
    (nn.Conv2d, nn.BatchNorm2d): fuse_conv_bn,
    (nn.Conv2d, nn.BatchNorm2d, nn.ReLU): fuse_conv_bn_relu,
    (nn.Conv3d, nn.BatchNorm3d): fuse_conv_bn,
    (nn.Conv3d, nn.BatchNorm3d, nn.ReLU): fuse_conv_bn_relu,
    (nn.Conv1d, nn.ReLU): _as(nni.ConvReLU1d),
    (nn.Conv2d, nn.ReLU): _as(nni.ConvReLU2d),
    (nn.Conv3d, nn.ReLU): _as(nni.ConvReLU3d),
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _as(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _as(nni.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _as(nni.BNReLU3d),
    (nn.ConvTranspose1d, nn.BatchNorm1d): fuse_convtranspose_bn,
    (nn.ConvTranspose2d, nn.BatchNorm2d): fuse_convtranspose_bn,
    (nn.ConvTranspose3d, nn.BatchNorm3d): fuse_convtranspose_bn,
}


def get_fuser_method(op_list, additional_fuser_method_mapping=None):
    """The function that fuses layers of these classes: fuser(is_qat, *layers); AssertionError where there is none."""
    known = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {})
    if op_list not in known:
        names = ", ".join(getattr(kind, "__name__", str(kind)) for kind in op_list)
        raise AssertionError(f"fuse_modules: there is no way to fuse ({names}); give one in fuse_custom_config_dict"
                             '={"additional_fuser_method_mapping": {(…): fuser}}')
    return known[op_list]


def _matching(pattern):
    """The pattern and those in which parts of it are MatchAllNode, the most exact first."""
    if isinstance(pattern, tuple):
        return [*itertools.product(*map(_matching, pattern)), MatchAllNode]
    return [pattern, MatchAllNode]


def get_fuser_method_new(op_pattern, fuser_method_mapping):
    """The fuser of a pattern; MatchAllNode in the mapping's patterns stands for anything."""
    for pattern in _matching(op_pattern):
        if fuser_method_mapping.get(pattern) is not None:
            return fuser_method_mapping[pattern]
    raise AssertionError(f"fuse_fx: no fuser is known for {op_pattern}")
