"""Which class takes which one's place: tables from float layers to those for training, of reference, and quantized."""

import copy

import flambeau
from flambeau import nn

from ..nn import intrinsic as nni
from ..nn import qat as nnqat
from ..nn import quantizable as nnz
from ..nn import quantized as nnq
from ..nn.intrinsic import qat as nniqat
from ..nn.intrinsic import quantized as nniq
from ..nn.intrinsic.quantized import dynamic as nniqd
from ..nn.qat import dynamic as nnqatd
from ..nn.quantized import dynamic as nnqd
from ..nn.quantized import reference as nnqr
from .fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

_Projection = nn.modules.attention.NonDynamicallyQuantizableLinear


def _same_names(source, target, names):
    """{source.X: target.X} for the names of classes in a text."""
    return {getattr(source, name): getattr(target, name) for name in names.split()}


_STUBS = {QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize}

DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS = {
    **_STUBS, **_same_names(nn, nnqr, "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d "
                                      "Embedding EmbeddingBag GRUCell LSTMCell RNNCell LSTM")}

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    **_STUBS,
    **_same_names(nn, nnq, "BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d "
                           "ConvTranspose3d ELU Embedding EmbeddingBag GroupNorm Hardswish InstanceNorm1d "
                           "InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU"),
    _Projection: nnq.Linear,
    **_same_names(nn, nnq, "Linear ReLU6 PReLU"),
    nnq.FloatFunctional: nnq.QFunctional,
    **_same_names(nni, nniq, "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d LinearReLU "
                             "LinearLeakyReLU LinearTanh"),
    nniqat.ConvBn1d: nnq.Conv1d, nniqat.ConvBn2d: nnq.Conv2d, nniqat.ConvBn3d: nnq.Conv3d,
    nniqat.ConvBnReLU1d: nniq.ConvReLU1d, nniqat.ConvBnReLU2d: nniq.ConvReLU2d, nniqat.ConvBnReLU3d: nniq.ConvReLU3d,
    **_same_names(nniqat, nniq, "ConvReLU2d ConvReLU3d LinearReLU"),
    nniqat.LinearBn1d: nnq.Linear,
    **_same_names(nnqat, nnq, "Linear Conv2d Conv3d"),
}

DEFAULT_QAT_MODULE_MAPPINGS = {
    **_same_names(nn, nnqat, "Conv2d Conv3d Linear"),
    _Projection: nnqat.Linear,
    **_same_names(nni, nniqat, "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d "
                               "ConvReLU3d LinearReLU LinearBn1d"),
}

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    nn.GRUCell: nnqd.GRUCell, nn.Linear: nnqd.Linear, nnqatd.Linear: nnqd.Linear, _Projection: nnqd.Linear,
    **_same_names(nn, nnqd, "LSTM GRU LSTMCell RNNCell"),
    nni.LinearReLU: nniqd.LinearReLU,
    **_same_names(nn, nnq, "EmbeddingBag Embedding"),
}

DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS = {
    getattr(nn.functional, name): getattr(flambeau.ops.quantized, name)
    for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")}

#: activations whose range is known beforehand
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}

_DEFAULT_CUSTOM_CONFIG_DICT = {
    "float_to_observed_custom_module_class": {nn.LSTM: nnz.LSTM, nn.MultiheadAttention: nnz.MultiheadAttention},
    "observed_to_quantized_custom_module_class": _same_names(nnz, nnq, "LSTM MultiheadAttention"),
}
_EMBEDDINGS = ("Embedding", "EmbeddingBag")


def no_observer_set():
    """Custom modules that observe what they compute themselves."""
    return {nnz.LSTM, nnz.MultiheadAttention}


def get_default_static_quant_module_mappings():
    """{class: its quantized one} for quantization after calibration."""
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings():
    """{class: the one of reference}: computed in floats, with a weight that went through its codes."""
    return copy.deepcopy(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings():
    """{class: the one for quantization-aware training}."""
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings():
    """{class: the one whose activations get their codes in each call}."""
    return copy.deepcopy(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings():
    """The mapping of static quantization, with embeddings that were trained for it."""
    return get_combined_dict(get_default_static_quant_module_mappings(), _same_names(nnqat, nnq, " ".join(_EMBEDDINGS)))


def get_embedding_qat_module_mappings():
    """The mapping of quantization-aware training, with embeddings."""
    return get_combined_dict(get_default_qat_module_mappings(), _same_names(nn, nnqat, " ".join(_EMBEDDINGS)))


def _class_of(kind, default, additional, what):
    known = get_combined_dict(default, additional or {})
    if known.get(kind) is None:
        raise AssertionError(f"{what} quantization: no class takes the place of {kind}; add one to the mapping")
    return copy.deepcopy(known[kind])


def get_static_quant_module_class(float_module_class, additional_static_quant_mapping=None, is_reference=False):
    """The class that takes a float one's place in static quantization."""
    default = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS if is_reference else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return _class_of(float_module_class, default, additional_static_quant_mapping, "static")


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    """The class that takes a float one's place in dynamic quantization."""
    return _class_of(float_module_class, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping,
                     "dynamic")


def get_default_float_to_quantized_operator_mappings():
    """{function: its operator for quantized tensors}."""
    return copy.deepcopy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op):
    """The operator for quantized tensors of a function."""
    if float_op not in DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS:
        raise AssertionError(f"get_quantized_operator: {float_op} has no operator for quantized tensors")
    return DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS[float_op]


def get_default_qconfig_propagation_list():
    """The classes whose results `prepare` observes."""
    return {nn.Sequential, *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS,
            *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS}


def get_default_compare_output_module_list():
    """The classes whose outputs a float and a quantized model are compared by."""
    tables = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS)
    found = {kind for table in tables for pair in table.items() for kind in pair}
    return copy.deepcopy(found | {nn.Sequential})
