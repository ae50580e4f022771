"""What the graph nodes of some operators are called, where PyTorch's name is not the record's own; and which operators'
results take their arguments' memory format."""

from .. import _C
from .kinds import OPS

#: record -> the name of its nodes, as `grad_fn` shows it
NODE_NAMES = {
    "max.all": "MaxBackward1", "max.dim": "MaxBackward0", "min.all": "MinBackward1", "min.dim": "MinBackward0",
    "median.all": "MedianBackward0", "median.dim": "MedianBackward1", "clamp": "ClampBackward1",
    "clamp_min": "ClampMinBackward0", "clamp_max": "ClampMaxBackward0", "square": "PowBackward0",
    "numpy_T": "PermuteBackward0", "mT": "TransposeBackward0", "movedim": "PermuteBackward0",
    "reshape": "ViewBackward0", "flatten": "ViewBackward0", "unflatten": "ViewBackward0",
    "narrow": "SliceBackward0", "chunk": "SplitBackward0", "contiguous": "CloneBackward0",
    "real": "SelectBackward0", "imag": "SelectBackward0", "copy_": "CopyBackwards",
    "fill_scalar_": "FillBackward0", "fill_tensor_": "FillBackward1", "rsub": "RsubBackward1",
    "matmul": "MmBackward0", "linear": "AddmmBackward0", "_vector_norm": "LinalgVectorNormBackward0",
    "max_pool": "MaxPool2DWithIndicesBackward0", "avg_pool": "AvgPool2DBackward0",
    "adaptive_avg_pool": "AdaptiveAvgPool2DBackward0", "adaptive_max_pool": "AdaptiveMaxPool2DBackward0",
    "layer_norm": "NativeLayerNormBackward0", "group_norm": "NativeGroupNormBackward0", "rms_norm": "MulBackward0",
    "dropout_forward": "MulBackward0", "dropout_scale": "MulBackward0", "_cross_entropy": "NllLossBackward0",
    "selu": "EluBackward0", "relu6": "HardtanhBackward0", "logsigmoid": "LogSigmoidBackward0", "_gated": "GluBackward0",
    "_leaky": "PreluKernelBackward0", "embedding_rows": "EmbeddingBackward0", "grid_sampler": "GridSampler2DBackward0",
    "scatter_value": "ScatterBackward1", "scatter_src": "ScatterBackward0", "index_fill_number": "IndexFillBackward0",
    "index_fill_tensor": "IndexFillBackward1", "bernoulli_tensor": "BernoulliBackward0",
}

#: of channels_last images these make channels_last images
KEEP_FORMAT = ("convolution", "native_batch_norm", "group_norm", "max_pool", "avg_pool", "adaptive_avg_pool",
               "adaptive_max_pool", "resize", "constant_pad_nd", "cat", "roll")


def apply():
    """Tells the operators; runs when all are defined."""
    for name, shown in NODE_NAMES.items():
        _C.name_nodes(OPS[name], shown)
    for name in KEEP_FORMAT:
        _C.keep_format(OPS[name])
