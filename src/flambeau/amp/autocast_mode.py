"""autocast: a context in which operators choose their precision, and the state behind it (of this thread)."""

import functools
import threading
from warnings import warn

from .. import _C
from .._shown import shown
from ..ops.kinds import OPS

_LOWER = (_C.bfloat16, _C.float16)
_KINDS = ("cpu", "cuda", "xpu", "ipu", "hpu", "xla", "mps", "mtia", "maia")


class _State(threading.local):
    """Of this thread: how deep contexts are nested, and what is set for kinds of devices that are not here."""

    def __init__(self):
        self.depth, self.enabled, self.dtypes = 0, {}, {}


_state = _State()


def _kind(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"autocast: device_type must be a string such as 'cpu', got {type(device_type).__name__}")
    if device_type not in (*_KINDS, "meta"):
        raise RuntimeError(f"autocast: unknown device type {shown(device_type)}; known are {', '.join(_KINDS)}")
    return device_type


def is_autocast_available(device_type):
    """Whether autocast changes what operators do on that kind of device: on the CPU, and on CUDA where it is there.

    >>> import flambeau
    >>> flambeau.amp.is_autocast_available("cpu")
    True
    >>> flambeau.amp.is_autocast_available("cuda")
    False
    """
    kind = _kind(device_type.partition(":")[0] if isinstance(device_type, str) else device_type)
    return kind == "cpu" or (kind == "cuda" and _C._cuda.available())


#: operators that compute in float32 on CUDA, beside those that do so on the CPU
_FLOAT32_ON_CUDA = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus layer_norm group_norm
    norm cosine_similarity dist pdist renorm logsumexp softmax log_softmax cumprod cumsum sum
""".split()


@functools.cache
def _know_cuda():
    """Tells native code of them, when autocast is first on for CUDA."""
    for name in _FLOAT32_ON_CUDA:
        _C.set_autocast_policy(OPS[name], 4)


# --- state --------------------------------------------------------------------------------------------------------

def is_autocast_enabled(device_type="cuda"):
    """Whether autocast is on for that kind of device; without one it asks about CUDA, as in PyTorch."""
    if device_type == "cuda":
        return _C.cuda_autocast_state()[0]
    return _C.autocast_state()[0] if device_type == "cpu" else _state.enabled.get(device_type, False)


def set_autocast_enabled(device_type, enabled=None):
    """Turns it on or off for a kind of device."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if device_type == "cpu":
        _, dtype, cache = _C.autocast_state()
        _C.set_autocast_state(enabled, dtype, cache)
    elif device_type == "cuda":
        if enabled:
            _know_cuda()
        _C.set_cuda_autocast_state(enabled, _C.cuda_autocast_state()[1])
    else:
        _state.enabled[_kind(device_type)] = enabled


def get_autocast_dtype(device_type):
    """The half-precision dtype of that kind of device."""
    if _kind(device_type) == "cuda":
        return _C.cuda_autocast_state()[1]
    return _C.autocast_state()[1] if device_type == "cpu" else _state.dtypes.get(device_type, _C.bfloat16)


def set_autocast_dtype(device_type, dtype):
    """Sets it."""
    if _kind(device_type) == "cpu":
        enabled, _, cache = _C.autocast_state()
        _C.set_autocast_state(enabled, dtype, cache)
    elif device_type == "cuda":
        _C.set_cuda_autocast_state(_C.cuda_autocast_state()[0], dtype)
    else:
        _state.dtypes[device_type] = dtype


is_autocast_cpu_enabled = functools.partial(is_autocast_enabled, "cpu")
set_autocast_cpu_enabled = functools.partial(set_autocast_enabled, "cpu")
get_autocast_cpu_dtype = functools.partial(get_autocast_dtype, "cpu")
set_autocast_cpu_dtype = functools.partial(set_autocast_dtype, "cpu")
get_autocast_gpu_dtype = functools.partial(get_autocast_dtype, "cuda")
set_autocast_gpu_dtype = functools.partial(set_autocast_dtype, "cuda")


def is_autocast_cache_enabled():
    """Whether a weight is converted once per outermost context."""
    return _C.autocast_state()[2]


def set_autocast_cache_enabled(enabled):
    """Sets that."""
    on, dtype, _ = _C.autocast_state()
    _C.set_autocast_state(on, dtype, enabled)


def clear_autocast_cache():
    """Forgets converted weights."""
    _C.clear_autocast_cache()


def autocast_increment_nesting():
    """One context more is open; how many there are."""
    _state.depth += 1
    return _state.depth


def autocast_decrement_nesting():
    """One context less is open; how many there are."""
    _state.depth -= 1
    return _state.depth


# --- the context ----------------------------------------------------------------------------------------------------

class autocast:
    """Inside: products compute in `dtype`, losses and decompositions in float32, of tensors on that kind of device.

    dtype: float16 or bfloat16; by default bfloat16 on the CPU and float16 on CUDA.

    Also a decorator. Weights stay float32, and so do their gradients.

    >>> import flambeau
    >>> x = flambeau.ones(2, 2)
    >>> with flambeau.autocast("cpu"):
    ...     (x @ x).dtype, flambeau.nn.functional.mse_loss(x @ x, x).dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device = _kind(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and not is_autocast_available(device_type):
            warn(f"autocast: {device_type.upper()} is not available in this build. Disabling autocast.", stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in _LOWER:
            warn(f"autocast computes in {' or '.join(map(str, _LOWER))}, not in {self.fast_dtype}: autocast "
                 "is off here", stacklevel=2)
            enabled = False
        self._enabled = enabled

    def __enter__(self):
        self._before = is_autocast_enabled(self.device), get_autocast_dtype(self.device), is_autocast_cache_enabled()
        set_autocast_enabled(self.device, self._enabled)
        if self._enabled or self.device != "cpu":
            set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_cache_enabled(self._cache_enabled)
        autocast_increment_nesting()
        return self

    def __exit__(self, *_):
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, cache = self._before
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cache)

    def __call__(self, func):
        @functools.wraps(func)
        def inside(*args, **kwargs):
            with type(self)._again(self):
                return func(*args, **kwargs)

        return inside

    def _again(self):
        made = autocast.__new__(autocast)
        made.__dict__.update(self.__dict__)
        return made


# --- functions with derivatives of their own ----------------------------------------------------------------------

def _cast(value, device_type, dtype):
    if isinstance(value, _C.Tensor):
        fits = value.is_floating_point() and value.device.type == device_type and value.dtype is not _C.float64
        return value.to(dtype) if fits else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        values = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """For `forward` of a custom Function: autocast's state is kept for backward, or (cast_inputs) inputs are converted
    to that dtype and autocast is off inside."""
    _kind(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        args[0]._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd=None, *, device_type):
    """For `backward` of a custom Function: runs with the autocast state that its forward had."""
    _kind(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args, **kwargs):
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return backward
