"""Puts this library where programs look for PyTorch, in this process and in those that it starts."""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import flambeau

from .. import _places
from ._finder import Finder, add_moved, rename, submodule
from ._version import TorchVersion, __version__

#: names of private modules that programs use without importing them
_TREE = {"_C", "_VF", "_dynamo", "_inductor", "_jit_internal", "_logging", "_ops", "_prims_common", "_tensor", "_utils"}
#: the folder that serves torch to a Python that has it on its PYTHONPATH
PATH = str(Path(__file__).with_name("path"))


class Torch(ModuleType):
    """The module `torch`: this library, with a version that PyTorch's programs accept."""

    def __getattr__(self, name):
        if name in _TREE:
            return import_module(f"torch.{name}")
        if name == "torch":  # PyTorch's module has itself, by an import inside
            return self
        try:
            found = getattr(flambeau, name)
        except AttributeError:
            found = submodule("torch", name, f"'torch' (Flambeau {flambeau.__version__})")
        if not hasattr(found, "_fx_original"):  # what stands there only while a program is traced is not kept
            self.__dict__[name] = found
        return found

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if not name.startswith("__") and name not in {"version", *_TREE}:
            setattr(flambeau, name, value)

    def __dir__(self):
        return dir(flambeau)


def _made():
    module = Torch("torch", flambeau.__doc__)
    kept = {name: value for name, value in vars(flambeau).items() if not name.startswith("__") and name not in _TREE}
    version = ModuleType("torch.version", "PyTorch's version that this library stands for.")
    version.__dict__.update({name: value for name, value in vars(flambeau.version).items() if name[:2] != "__"})
    version.__getattr__ = flambeau.version.__getattr__
    version.__version__ = str(__version__)
    words = ModuleType("torch.torch_version", "A version that compares with strings and tuples.")
    words.TorchVersion, words.__version__ = TorchVersion, __version__
    vars(module).update(kept, __version__=__version__, __file__=flambeau.__file__, __path__=flambeau.__path__,
                        __spec__=ModuleSpec("torch", None, is_package=True), version=version, torch_version=words)
    return {"torch": module, "torch.version": version, "torch.torch_version": words}


def environment(variables):
    """These environment variables for a Python that shall be served torch."""
    before = variables.get("PYTHONPATH", "")
    parts = before.split(os.pathsep) if before else []
    return {**variables, "PYTHONPATH": os.pathsep.join([PATH, *(part for part in parts if part != PATH)])}


def installed():
    """Whether `torch` is this library in this process."""
    return isinstance(sys.modules.get("torch"), Torch)


def install():
    """From now on `import torch` gives this library, here and in processes started from here.

    A second call does nothing. RuntimeError: the real PyTorch has been imported already.
    """
    if installed():
        return
    real = sys.modules.get("torch")
    if real is not None and getattr(real, "__file__", None) != str(Path(PATH, "torch", "__init__.py")):
        raise RuntimeError("as_torch.install: torch has been imported already, from "
                           f"{getattr(real, '__file__', None) or 'an unknown place'}; install() must come first")
    _places.ROOTS.add("torch")
    sys.meta_path.insert(0, Finder())
    for name, module in list(sys.modules.items()):
        if name.startswith("flambeau.") and type(module) is ModuleType and module.__name__ == name:
            add_moved(module)
            rename(module)
    rename(flambeau)
    sys.modules.update(_made())
    if PATH not in sys.path:
        sys.path.insert(0, PATH)
    os.environ.update(environment(os.environ))
