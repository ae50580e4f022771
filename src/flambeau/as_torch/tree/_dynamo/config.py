"""torch._dynamo.config: settings of another compiler. Any name can be set, and only `disable` changes anything."""

import sys
from types import ModuleType

from ...._graph import STANCE
from ..._patching import patcher

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = 256
optimize_ddp = True
capture_scalar_outputs = capture_dynamic_output_shape_ops = False
allow_unspec_int_on_nn_module = False
inline_inbuilt_nn_modules = True
assume_static_by_default = True
automatic_dynamic_shapes = True


class _Config(ModuleType):
    @property
    def disable(self):
        """Whether compiled functions run as they are."""
        return STANCE[0] == "force_eager"

    @disable.setter
    def disable(self, on):
        STANCE[0] = "force_eager" if on else "default"


patch = patcher(__name__)
sys.modules[__name__].__class__ = _Config
