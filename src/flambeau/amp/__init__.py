"""Mixed precision: products in half precision where that is safe (autocast), and gradients scaled so that none is lost
(GradScaler)."""

from .autocast_mode import autocast as autocast
from .autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
from .autocast_mode import autocast_increment_nesting as autocast_increment_nesting
from .autocast_mode import clear_autocast_cache as clear_autocast_cache
from .autocast_mode import custom_bwd as custom_bwd
from .autocast_mode import custom_fwd as custom_fwd
from .autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .autocast_mode import get_autocast_dtype as get_autocast_dtype
from .autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .autocast_mode import is_autocast_available as is_autocast_available
from .autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
from .autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .autocast_mode import is_autocast_enabled as is_autocast_enabled
from .autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
from .autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from .autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from .autocast_mode import set_autocast_dtype as set_autocast_dtype
from .autocast_mode import set_autocast_enabled as set_autocast_enabled
from .autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from .grad_scaler import GradScaler as GradScaler
from .grad_scaler import OptState as OptState
