"""Flambeau: tensors, define-by-run gradients, and neural networks, under PyTorch's own API."""

import importlib as _importlib
import sys as _sys

from ._processor import refusal as _refusal

try:
    from . import _C
except ImportError as _error:
    raise _refusal(_error) from None

from . import _array_standard as _standard_methods
from . import _layouts as _sparse_methods
from . import ops as _ops
from ._absent import methods as _absent_methods
from ._C import Generator as Generator
from ._C import OutOfMemoryError as OutOfMemoryError
from ._C import Size as Size
from ._C import Tensor as Tensor
from ._C import default_generator as default_generator
from ._C import device as device
from ._C import dtype as dtype
from ._C import frombuffer as frombuffer
from ._C import memory_format as memory_format
from ._graph import calls as _graph_calls
from ._shown import shown
from ._tensor import asking as _asking
from ._tensor import exchange as _exchange
from ._tensor import memory as _memory
from ._tensor import methods as _methods
from ._tensor import overriding as _overriding
from ._tensor.creation import as_tensor as as_tensor
from ._tensor.creation import asarray as asarray
from ._tensor.creation import from_numpy as from_numpy
from ._tensor.creation import tensor as tensor
from ._tensor.dtypes import can_cast as can_cast
from ._tensor.dtypes import finfo as finfo
from ._tensor.dtypes import iinfo as iinfo
from ._tensor.dtypes import promote_types as promote_types
from ._tensor.dtypes import result_type as result_type
from ._tensor.queries import _assert as _assert
from ._tensor.queries import allclose as allclose
from ._tensor.queries import broadcast_shapes as broadcast_shapes
from ._tensor.queries import detach_ as detach_
from ._tensor.queries import is_complex as is_complex
from ._tensor.queries import is_conj as is_conj
from ._tensor.queries import is_floating_point as is_floating_point
from ._tensor.queries import is_inference as is_inference
from ._tensor.queries import is_nonzero as is_nonzero
from ._tensor.queries import is_signed as is_signed
from ._tensor.queries import is_tensor as is_tensor
from ._tensor.queries import numel as numel
from ._tensor.queries import resolve_conj as resolve_conj
from ._tensor.queries import typename as typename
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
from .random import fork_rng as _fork_rng
from .random import get_rng_state as get_rng_state
from .random import initial_seed as initial_seed
from .random import manual_seed as manual_seed
from .random import seed as seed
from .random import set_rng_state as set_rng_state
from .version import __version__ as __version__

# every operator whose record says it is public here; dtypes, memory formats and layouts
globals().update(_ops.public(""))
_ops.late("quantized", f"{__name__}._quantized.operators")
for _each in ("_c10d_functional", "c10d_functional", "c10d"):
    _ops.late(_each, f"{__name__}.distributed._operators")
_ops.described_by(f"{__name__}.library._of_records")
_graph_calls.planned_by(f"{__name__}.compiler._backends")
globals().update({_name: getattr(_C, _name) for _name in _methods.CONSTANTS})
half, double = _C.float16, _C.float64
short, int, long = _C.int16, _C.int32, _C.int64
float, chalf, cfloat, cdouble = _C.float32, _C.complex32, _C.complex64, _C.complex128
layout = _C.memory_format
inf, nan, pi, e, newaxis = 1e999, -(1e999 - 1e999), 3.141592653589793, 2.718281828459045, None

#: subpackages and modules loaded when first used
_LAZY = {"linalg", "fft", "signal", "nn", "optim", "utils", "testing", "memory", "serialization", "special", "storage",
         "cuda", "classes", "backends", "accelerator", "amp", "compiler", "cpu", "func", "futures", "hub", "masked",
         "mps", "mtia", "multiprocessing", "nested", "sparse", "return_types", "types", "__config__", "__future__",
         "profiler", "debug", "library", "control_flow", "overrides", "distributions", "quasirandom", "safetensors",
         "functional", "jit", "fx", "export", "onnx", "distributed", "array_api", "ao", "package", "quantization",
         "monitor", "vision", "xpu"}
#: module -> names of flambeau that live there; it is loaded when one of them is first used
_LAZY_FROM = {
    "func": "vmap",
    "debug._summary": "summary",
    "debug._check": "check",
    "serialization": "save load",
    "_tensor.printing": "set_printoptions get_printoptions printoptions",
    "_tensor.storage": "Storage StorageBase UntypedStorage TypedStorage is_storage FloatStorage DoubleStorage "
                       "HalfStorage BFloat16Storage ByteStorage CharStorage ShortStorage IntStorage LongStorage "
                       "BoolStorage ComplexFloatStorage ComplexDoubleStorage",
    "_settings": "get_default_dtype set_default_dtype get_default_device set_default_device set_default_tensor_type "
                 "get_num_threads set_num_threads get_num_interop_threads set_num_interop_threads init_num_threads "
                 "get_float32_matmul_precision set_float32_matmul_precision set_flush_denormal "
                 "use_deterministic_algorithms are_deterministic_algorithms_enabled "
                 "is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode "
                 "get_deterministic_debug_mode is_warn_always_enabled set_warn_always compiled_with_cxx11_abi "
                 "get_device_module",
    "_tensor.private": "_check _check_index _check_value _check_type _check_not_implemented _check_with _check_is_size "
                       "_check_tensor_all _check_tensor_all_with _assert_async _shape_as_tensor "
                       "_softmax_backward_data _log_softmax_backward_data "
                       "_has_compatible_shallow_copy_type",
    "_tensor.dlpack": "from_dlpack to_dlpack",
    "_sparse.construct": "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor "
                         "sparse_compressed_tensor",
    "_sparse.products": "smm hspmm sspaddmm dsmm spmm hsmm saddmm",
    "_sparse.convert": "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo",
    "_sparse.methods": "indices_copy values_copy crow_indices_copy col_indices_copy ccol_indices_copy "
                       "row_indices_copy",
    "_nested.construct": "_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _nested_from_padded "
                         "_nested_view_from_buffer _nested_compute_contiguous_strides_offsets _nested_view_from_jagged "
                         "_nested_tensor_from_tensor_list _nested_from_padded_and_nested_example",
    "_quantized.schemes": "qscheme per_tensor_affine per_tensor_symmetric per_channel_affine per_channel_symmetric "
                          "per_channel_affine_float_qparams",
    "_quantized.quantize": "quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel dequantize "
                           "_make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor "
                           "_empty_affine_quantized _choose_qparams_per_tensor int_repr q_scale q_zero_point "
                           "q_per_channel_scales q_per_channel_zero_points q_per_channel_axis",
    "_quantized.fake": "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
                       "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine",
    "_quantized.operators": "quantized_batch_norm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d",
    "_tensor.mapped": "from_file",
    "_tensor.types": "FloatTensor DoubleTensor HalfTensor BFloat16Tensor ByteTensor CharTensor ShortTensor IntTensor "
                     "LongTensor BoolTensor ComplexFloatTensor ComplexDoubleTensor",
    "library._enumerations": "Tag DispatchKey AggregationType",
    "_absent.streams": "AcceleratorError",
    "cuda._any": "Stream Event",
    "_symbolic.numbers": "SymInt SymFloat SymBool sym_int sym_float sym_not sym_max sym_min sym_ite sym_sum sym_sqrt "
                       "sym_fresh_size",
    "control_flow": "cond while_loop",
    "compiler": "compile",
    "jit": "ScriptModule ScriptFunction fork wait import_ir_module import_ir_module_from_buffer",
    "library._function_schema": "parse_schema",
    "futures": "Future",
    "monitor": "set_vital",
    "_files.records": "PyTorchFileReader PyTorchFileWriter",
    "debug._errstate": "errstate",
    "amp": "autocast GradScaler is_autocast_available is_autocast_enabled set_autocast_enabled get_autocast_dtype "
           "set_autocast_dtype is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype "
           "set_autocast_cpu_dtype get_autocast_gpu_dtype set_autocast_gpu_dtype clear_autocast_cache "
           "is_autocast_cache_enabled set_autocast_cache_enabled autocast_increment_nesting autocast_decrement_nesting",
    "amp._updates": "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_",
    "random": "thread_safe_generator",
    "autograd.anomaly_mode": "is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled",
}
_LAZY_NAMES = {name: module for module, names in _LAZY_FROM.items() for name in names.split()}
has_mkl = has_cuda = has_cudnn = has_mps = False
has_mkldnn = has_openmp = has_lapack = has_spectral = True
legacy_contiguous_format = contiguous_format  # noqa: F821
_segment_reduce = segment_reduce  # noqa: F821


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _LAZY_NAMES:  # kept, so that the next use finds it without asking here
        found = globals()[name] = getattr(_importlib.import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
        return found
    if name.startswith("_foreach_"):
        return getattr(_importlib.import_module(f"{__name__}._tensor.foreach"), name)
    hint = ""
    if not name.startswith("_"):  # a name of PyTorch's that stands for what is not here says so when it is used
        absent = _importlib.import_module(f"{__name__}._absent.names")
        found = absent.find(name)
        if found is not None:
            return found
        hint = absent.hint(name)
    raise AttributeError(f"module {__name__!r} has no attribute {shown(name)}{hint}")


def __dir__():
    return sorted(set(globals()) | _LAZY | set(_LAZY_NAMES))


_sys.modules[__name__].__class__ = _C.Package  # which finds names faster
