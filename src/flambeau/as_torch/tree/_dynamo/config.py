"""torch._dynamo.config: settings of another compiler. Any name can be set, and only `disable` changes anything."""

import contextlib
import sys
from types import ModuleType

from ...._graph import STANCE

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


@contextlib.contextmanager
def patch(arg1=None, arg2=None, **changes):
    """A `with` block, or a decorated function, in which settings have other values: patch(name=value), patch({name:
    value}) or patch("name", value)."""
    module = sys.modules[__name__]
    changes = {**({arg1: arg2} if isinstance(arg1, str) else arg1 or {}), **changes}
    missing = object()
    before = {name: getattr(module, name, missing) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is missing:
                delattr(module, name)
            else:
                setattr(module, name, value)


sys.modules[__name__].__class__ = _Config
