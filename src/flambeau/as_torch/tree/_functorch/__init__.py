"""torch._functorch: `vmap` is the module that runs it, so that packages which put a step of theirs there are heard."""

import sys
from importlib import import_module

from . import config as config

sys.modules[f"{__name__}.vmap"] = import_module("flambeau._transforms.vmap")
