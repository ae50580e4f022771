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
assume_static_by_default = automatic_dynamic_shapes = dynamic_shapes = True
guard_nn_modules = force_parameter_static_shapes = force_nn_module_property_static_shapes = True
skip_nnmodule_hook_guards = skip_fsdp_guards = trace_numpy = report_guard_failures = True
specialize_int = specialize_float = compiled_autograd = error_on_recompile = fail_on_recompile_limit_hit = False
allow_rnn = use_numpy_random_stream = prefer_deferred_runtime_asserts_over_guards = allow_ignore_mark_dynamic = False
cudagraph_backend_keep_input_mutation = enable_compiler_collectives = caching_precompile = False
accumulated_recompile_limit, numpy_default_float = 256, "float64"
repro_after, repro_level = None, 2


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
