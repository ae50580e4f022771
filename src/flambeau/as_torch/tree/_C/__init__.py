"""torch._C: what packages read there. All else is this library's own compiled part."""

import contextlib
import importlib

import flambeau

from .... import _C
from ...._absent import refused_class
from ...._tensor.overriding import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
from ...._tensor.overriding import disable_torch_function as DisableTorchFunction
from ...._tensor.overriding import dispatch_modes, function_modes
from ...._tensor.overriding import has_torch_function as _has_torch_function
from ...._tensor.overriding import has_torch_function_unary as _has_torch_function_unary
from ...._tensor.overriding import has_torch_function_variadic as _has_torch_function_variadic
from ...._transforms.levels import stack
from ....amp import autocast
from ....library._enumerations import DispatchKey as DispatchKey
from ....nn.modules._convert import _parse_to
from . import _distributed_rpc as _distributed_rpc
from . import _functorch as _functorch

has_lapack = has_mkldnn = has_openmp = has_spectral = True


class _Functions:
    """PyTorch's compiled functions of one part: `gelu` and `upsample_nearest2d` of `_nn`, with ATen's arguments."""

    def __init__(self, **own):
        vars(self).update(own)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(flambeau.ops.aten, name)


_nn = _Functions(_parse_to=_parse_to)
_GRAPHS = "graphs of programs are not captured yet"
_TensorMeta = type(_C.Tensor)
Graph, Value, Node = (refused_class(f"_C.{name}", _GRAPHS) for name in ("Graph", "Value", "Node"))


#: names that stand in other modules here, which are loaded when they are first asked for
_LATER = {"CompilationUnit": "flambeau.jit", "ScriptFunction": "flambeau.jit", "ScriptModule": "flambeau.jit",
          "Future": "flambeau.futures", "Tag": "flambeau", "PyTorchFileReader": "flambeau._files.records",
          "PyTorchFileWriter": "flambeau._files.records", "parse_schema": "flambeau.library._function_schema",
          "FunctionSchema": "flambeau.library._function_schema", "import_ir_module": "flambeau.jit",
          "import_ir_module_from_buffer": "flambeau.jit"}


def __getattr__(name):
    return getattr(importlib.import_module(_LATER[name]) if name in _LATER else _C, name)


def _len_torch_function_stack():
    """How many function modes this thread is in."""
    return len(function_modes())


def _len_torch_dispatch_stack():
    """How many dispatch modes this thread is in."""
    return len(dispatch_modes())


def _is_torch_function_mode_enabled():
    """Whether this thread is in a function mode."""
    return bool(function_modes())


def _get_function_stack_at(index):
    """The function mode at this place, 0 being the outermost."""
    return function_modes()[index]


def _get_dispatch_stack_at(index):
    """The dispatch mode at this place, 0 being the outermost."""
    return dispatch_modes()[index]


class DispatchKeySet(frozenset):
    """A set of dispatch keys: here a call is not sent from key to key, so it is only a set.

    >>> from flambeau.as_torch.tree._C import DispatchKey, DispatchKeySet
    >>> DispatchKeySet(DispatchKey.CPU).has(DispatchKey.CPU)
    True
    """

    def __new__(cls, keys=()):
        return super().__new__(cls, [keys] if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other):
        return DispatchKeySet(frozenset(self) | frozenset(other))

    def has(self, key):
        """Whether the key is one of them."""
        return key in self


class _ExcludeDispatchKeyGuard(contextlib.ExitStack):
    """Context that leaves out dispatch keys: autocast is off for the devices whose Autocast keys are among them."""

    def __init__(self, keys):
        super().__init__()
        self.kinds = [key.name.removeprefix("Autocast").lower() for key in DispatchKeySet(keys)
                      if key.name.startswith("Autocast")]

    def __enter__(self):
        for kind in self.kinds:
            self.enter_context(autocast(kind, enabled=False))
        return self


def _are_functorch_transforms_active():
    """Whether a vmap, jvp or another transform of flambeau.func runs on this thread."""
    return bool(stack.frames)


def _get_default_device():
    """The kind of device that tensors are made on where none is named."""
    return _C.default_device().type


def _log_api_usage_once(event):
    """Counts uses of a function: nothing is counted."""


def _get_tracing_state():
    """The trace that records: None."""


def _get_cudnn_enabled():
    """Whether cuDNN may be used, as backends.cudnn.enabled says."""
    return flambeau.backends.cudnn.enabled


def _current_graph_task_id():
    """A number of the backward pass that this thread is in, -1 in none."""
    return _C.current_pass() or -1


def _get_accelerator(check=None):
    """The device that stands in for an accelerator: the CPU."""
    return _C.device("cpu")


def _get_privateuse1_backend_name():
    """The name of a backend of one's own."""
    return "privateuseone"


def _jit_set_profiling_mode(mode):
    """A switch of TorchScript, which is not here; what it was before: off."""
    return False


_jit_set_profiling_executor = _jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_mode
_jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_set_profiling_mode
_jit_set_inline_everything_mode = _jit_set_autocast_mode = _set_graph_executor_optimize = _jit_set_profiling_mode


def _jit_set_num_profiled_runs(size):
    """A setting of TorchScript's profiles, which are not here; what it was before."""
    return 1


_jit_set_bailout_depth = _jit_set_num_profiled_runs


def _get_graph_executor_optimize(new_setting=None):
    """Whether TorchScript optimizes before it runs: no."""
    return False


def _jit_clear_class_registry():
    """Forgets the classes of scripts: each program has its own."""


def _jit_can_fuse_on_cpu():
    """Whether TorchScript fuses: never."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu


def _cuda_isInBadFork():
    """Whether this process was forked from one that uses a GPU: never."""
    return False
