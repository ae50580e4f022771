"""Finds `torchvision.x.y`: our module of `flambeau.vision`, or an installed torchvision's file where we have none."""

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from .._shown import shown
from ..version import __version__ as _ours
from ._version import TorchVersion

#: torchvision's API that this library is written to
__version__ = TorchVersion(f"0.28.0+flambeau.{_ours}")
_SERVED = str(Path(__file__).with_name("path"))


def _here(name):
    """The name of our module for torchvision's, where there is one."""
    ours = "flambeau.vision" + name[len("torchvision"):]
    try:
        return ours if find_spec(ours) is not None else None
    except ModuleNotFoundError:
        return None


def _installed(name):
    """The spec of a file of an installed torchvision."""
    whole = PathFinder.find_spec("torchvision", [part for part in sys.path if part != _SERVED])
    if whole is None or not whole.submodule_search_locations:
        return None
    folders = [str(Path(root, *name.split(".")[1:-1])) for root in whole.submodule_search_locations]
    return PathFinder.find_spec(name, folders)


class Vision(ModuleType):
    """The module `torchvision`: `flambeau.vision`, with a version that its programs accept."""

    def __getattr__(self, name):
        if not name.startswith("__"):
            ours = import_module("flambeau.vision")
            if hasattr(ours, name):
                return getattr(ours, name)
            try:
                return import_module(f"torchvision.{name}")
            except ModuleNotFoundError:
                pass
        raise AttributeError(f"module 'torchvision' (Flambeau {_ours}) has no attribute {shown(name)}")

    def __dir__(self):
        return [*vars(self), *dir(import_module("flambeau.vision"))]


class _Whole(Loader):
    """Makes `torchvision` and `torchvision.version`."""

    def create_module(self, spec):
        return Vision(spec.name, import_module("flambeau.vision").__doc__)

    def exec_module(self, module):
        version = ModuleType("torchvision.version", "torchvision's version that this library stands for.")
        version.__version__, version.cuda, version.git_version = str(__version__), None, ""
        version.__spec__ = ModuleSpec("torchvision.version", None)
        sys.modules["torchvision.version"] = version
        ours = import_module("flambeau.vision")
        module.__version__, module.version, module.__file__ = str(__version__), version, ours.__file__
        module.__path__ = list(ours.__path__)


class Alias(Loader):
    """Gives a module that has been imported under another name."""

    def __init__(self, name):
        self._name = name

    def create_module(self, spec):
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._spec  # the import has put its own there

    def get_code(self, fullname):
        """For `python -m`."""
        return find_spec(self._name).loader.get_code(self._name)


def spec(name):
    """What the import of a name of torchvision's is told."""
    if name == "torchvision":
        return ModuleSpec(name, _Whole(), is_package=True)
    ours = _here(name)
    if ours is not None:
        return ModuleSpec(name, Alias(ours), is_package=True)
    found = _installed(name)
    if found is None and name.count(".") == 1 and not name.rpartition(".")[2].startswith("_"):
        raise ModuleNotFoundError(f"{name} is not in flambeau.vision, and no torchvision is installed beside it whose "
                                  "file could be used (pip install --no-deps torchvision)", name=name)
    return found
