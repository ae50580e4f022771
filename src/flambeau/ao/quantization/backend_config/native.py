"""The patterns that the quantized operators of this library compute: those of PyTorch's backend on processors."""

import operator

import flambeau
from flambeau import nn

from ...nn import intrinsic as nni
from ...nn import qat as nnqat
from ...nn.intrinsic import qat as nniqat
from ...nn.quantized import reference as nnqr
from ..fuser_method_mappings import (
    _CONV_BN,
    _CONV_BN_RELU,
    _CONV_RELU,
    _as,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType

F = nn.functional
_OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_UNSEEN = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
_quint8, _qint8, _float, _half = flambeau.quint8, flambeau.qint8, flambeau.float32, flambeau.float16

_WEIGHTED = [DTypeConfig(_quint8, _quint8, _qint8, _float)]
_DYNAMIC = [DTypeConfig(_quint8, _float, _qint8, _float, True), DTypeConfig(_half, _float, _half, _float, True)]
_PLAIN = [DTypeConfig(_quint8, _quint8)]
_NORMED = [DTypeConfig(_quint8, _quint8, _float, _float)]
_TABLE = [DTypeConfig(_float, _float, flambeau.quint8), DTypeConfig(_float, _float, flambeau.quint4x2)]


def _fixed(scale, zero_point):
    codes = DTypeWithConstraints(_quint8, 0, 255, scale_exact_match=scale, zero_point_exact_match=zero_point)
    return [DTypeConfig(codes, codes)]


_ZERO_TO_ONE, _MINUS_ONE_TO_ONE = _fixed(1 / 256, 0), _fixed(2 / 256, 128)
_RELUS = (nn.ReLU, F.relu)
_BY_COUNT = {0: _OWN, 1: _SHARED, 2: _OWN}  # number of tensors among the operands: a number shifts or scales codes

_FIXED = {
    (nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, flambeau.sigmoid, "sigmoid", "sigmoid_",
     nn.Softmax): _ZERO_TO_ONE,
    (nn.Tanh, flambeau.tanh, "tanh", "tanh_"): _MINUS_ONE_TO_ONE,
}
_OWN_RANGE = (nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d, nn.Dropout,
              nn.PReLU, F.elu, F.hardswish, F.leaky_relu, F.dropout, flambeau.matmul)
_SAME_RANGE = (
    flambeau.cat, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AvgPool3d, nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.PixelShuffle,
    nn.PixelUnshuffle, nn.ReLU, nn.ReLU6, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d,
    F.hardtanh, F.hardtanh_, F.interpolate, F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle,
    F.pixel_unshuffle, F.relu, F.relu6, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, flambeau.clamp, flambeau.flatten,
    flambeau.mean, flambeau.narrow, flambeau.repeat_interleave, flambeau.transpose, flambeau.squeeze, flambeau.stack,
    flambeau.unsqueeze, operator.floordiv, "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat",
    "repeat_interleave", "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze",
    "unsqueeze_", "view",
)


def _config(pattern, dtypes, observed=_OWN, **fields):
    """A BackendPatternConfig; fields by their names."""
    return BackendPatternConfig(pattern).set_dtype_configs(dtypes)._with(observation_type=observed, **fields)


def _weighted(layer, dtypes, function, norm, qat, fused, fuse_bn):
    """Patterns of a convolution or linear layer: alone, with batch norm, with ReLU, as modules and as functions.

    qat: {class: the one for training}; fused: (with ReLU, with batch norm, with both or None).
    """
    reference = {"root_module": layer, "reference_quantized_module": getattr(nnqr, layer.__name__)}
    with_relu, with_bn, with_both = fused
    found = [_config(layer, dtypes, **reference, qat_module=qat[layer]), _config(qat[layer], dtypes, **reference),
             _config(function, dtypes, _input_type_to_index={"weight": 1, "bias": 2})]
    found += [_config((layer, relu), dtypes, fuser_method=_as(with_relu), fused_module=with_relu) for relu in _RELUS]
    found += [_config(with_relu, dtypes, **reference, qat_module=qat[with_relu]),
              _config(qat[with_relu], dtypes, **reference)]
    found += [_config((function, relu), dtypes) for relu in _RELUS]
    found += [_config((layer, norm), dtypes, fuser_method=fuse_bn, fused_module=with_bn),
              _config(with_bn, dtypes, **reference, qat_module=qat[with_bn]),
              _config(qat[with_bn], dtypes, **reference)]
    if with_both is not None:
        found += [_config((layer, norm, relu), dtypes, fuser_method=fuse_conv_bn_relu, fused_module=with_both)
                  for relu in _RELUS]
        found += [_config(with_both, dtypes, **reference, qat_module=qat[with_both]),
                  _config(qat[with_both], dtypes, **reference)]
    return found


def _convolutions(dtypes):
    found = []
    for n, layer in enumerate((nn.Conv1d, nn.Conv2d, nn.Conv3d), 1):
        norm = getattr(nn, f"BatchNorm{n}d")
        fused = (_CONV_RELU[layer], _CONV_BN[layer], _CONV_BN_RELU[layer])
        qat = {layer: getattr(nnqat, layer.__name__), **{kind: getattr(nniqat, kind.__name__) for kind in fused}}
        found += _weighted(layer, dtypes, getattr(F, f"conv{n}d"), norm, qat, fused, fuse_conv_bn)
        turned = getattr(nn, f"ConvTranspose{n}d")
        reference = {"root_module": turned, "reference_quantized_module": getattr(nnqr, turned.__name__)}
        found += [_config(turned, dtypes, **reference),
                  _config((turned, norm), dtypes, fuser_method=fuse_convtranspose_bn, **reference),
                  _config(getattr(F, f"conv_transpose{n}d"), dtypes, _input_type_to_index={"weight": 1, "bias": 2})]
    return found


def _linears(dtypes):
    fused = (nni.LinearReLU, nni.LinearBn1d, None)
    qat = {nn.Linear: nnqat.Linear, nni.LinearReLU: nniqat.LinearReLU, nni.LinearBn1d: nniqat.LinearBn1d}
    return _weighted(nn.Linear, dtypes, F.linear, nn.BatchNorm1d, qat, fused, fuse_linear_bn)


def _sums(dtypes):
    found = []
    for function in (operator.add, flambeau.add, operator.mul, flambeau.mul):
        patterns = [(function, relu) for relu in (nn.ReLU, F.relu, flambeau.relu)] + [function]
        found += [_config(pattern, dtypes, _num_tensor_args_to_observation_type=_BY_COUNT) for pattern in patterns]
    return found


def _norms(dtypes):
    found = []
    for norm, fused in ((nn.BatchNorm2d, nni.BNReLU2d), (nn.BatchNorm3d, nni.BNReLU3d)):
        found += [_config((norm, relu), dtypes, fuser_method=_as(fused), fused_module=fused) for relu in _RELUS]
        found += [_config(norm, dtypes), _config(fused, dtypes)]
    found += [_config(F.group_norm, dtypes, _input_type_to_index={"weight": 2, "bias": 3}),
              _config(F.instance_norm, dtypes, _input_type_to_index={"weight": 3, "bias": 4})]
    return found


def _layer_norms():
    functions = dict.fromkeys((F.layer_norm, flambeau.layer_norm))
    return [_config(nn.LayerNorm, _NORMED), *(_config(f, _NORMED, _input_type_to_index={"weight": 2, "bias": 3})
                                              for f in functions)]


def _recurrent_and_tables():
    found = [_config(kind, _DYNAMIC, root_module=kind, reference_quantized_module=getattr(nnqr, kind.__name__))
             for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell, nn.LSTM, nn.GRU)]
    for kind in (nn.Embedding, nn.EmbeddingBag):
        qat = getattr(nnqat, kind.__name__)
        reference = {"root_module": kind, "reference_quantized_module": getattr(nnqr, kind.__name__)}
        found += [_config(kind, _TABLE, **reference, qat_module=qat), _config(qat, _TABLE, **reference)]
    return found


def get_native_backend_config():
    """What the quantized operators of this library compute: as PyTorch's for "fbgemm" and "x86"."""
    made = BackendConfig("native")
    made.set_backend_pattern_configs(_convolutions(_WEIGHTED))
    made.set_backend_pattern_configs(_linears(_WEIGHTED + _DYNAMIC))
    made.set_backend_pattern_configs(_sums(_PLAIN))
    made.set_backend_pattern_configs([_config(kind, _PLAIN) for kind in _OWN_RANGE])
    made.set_backend_pattern_configs([_config(kind, dtypes) for kinds, dtypes in _FIXED.items() for kind in kinds])
    made.set_backend_pattern_configs([_config(kind, _PLAIN, _SHARED) for kind in _SAME_RANGE])
    made.set_backend_pattern_configs([_config(kind, _PLAIN, _UNSEEN) for kind in ("shape", "size")])
    made.set_backend_pattern_configs(_norms(_PLAIN))
    made.set_backend_pattern_configs(_layer_norms())
    return made.set_backend_pattern_configs(_recurrent_and_tables())


def get_native_backend_config_dict():
    """The same as plain data."""
    return get_native_backend_config().to_dict()


def get_fbgemm_backend_config():
    """PyTorch's name for what this library computes on x86 processors."""
    return get_native_backend_config().set_name("fbgemm")
