"""What a backend computes on codes: patterns of operators, their dtypes, and how they are observed."""

from ...._absent import refusals
from .backend_config import BackendConfig as BackendConfig
from .backend_config import BackendPatternConfig as BackendPatternConfig
from .backend_config import DTypeConfig as DTypeConfig
from .backend_config import DTypeWithConstraints as DTypeWithConstraints
from .backend_config import ObservationType as ObservationType
from .native import get_fbgemm_backend_config as get_fbgemm_backend_config
from .native import get_native_backend_config as get_native_backend_config
from .native import get_native_backend_config_dict as get_native_backend_config_dict

_REASON = "there is no such backend here; get_native_backend_config() tells what this library computes"
globals().update(refusals("ao.quantization.backend_config", _REASON, """get_qnnpack_backend_config
 get_tensorrt_backend_config get_tensorrt_backend_config_dict get_executorch_backend_config
 get_onednn_backend_config"""))
