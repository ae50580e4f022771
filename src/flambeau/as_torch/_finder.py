"""Finds `torch.x.y`: our module of that name, or one made of what we keep elsewhere; classes take PyTorch's names."""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import FunctionType, ModuleType

from .._places import OURS, torch_module
from .._shown import shown
from ._vision import Alias
from ._vision import spec as vision_spec

_TREE = "flambeau.as_torch.tree"
#: modules of PyTorch's that have names of ours, and the packages they lie in
_MADE = {"flambeau" + ".".join(["", *theirs.split(".")[1:depth]])
         for theirs, _ in OURS for depth in range(2, theirs.count(".") + 2)}

#: those of them that others lie in
_ABOVE = {name.rpartition(".")[0] for name in _MADE}

#: modules that are run by `python -m`, which asks packages for a module __main__
_PROGRAMS = {"torch.distributed.run", "torch.distributed.launch"}


#: modules of packages that go on without their compiled part where its file is missing -> the function that loads it.
#: Such parts are compiled against PyTorch's C++ interface: here they count as missing.
_COMPILED = {"torchaudio._extension.utils": "_load_lib"}


def rename(module):
    """The classes and functions that a module of ours defines say that they are of PyTorch's; `inspect` looks for their
    source there."""
    theirs = "torch" + module.__name__[len("flambeau"):]
    if module.__name__ not in _ABOVE and not _exists(_TREE + theirs[len("torch"):]):
        sys.modules.setdefault(theirs, module)
    for name, value in list(vars(module).items()):
        if isinstance(value, (type, FunctionType)) and value.__module__ == module.__name__:
            value.__module__ = torch_module(module.__name__.replace(_TREE, "flambeau"), name)


def add_moved(module):
    """What PyTorch has in the module of this name, and we elsewhere, is there when it is first asked for.

    So are the modules below it, which PyTorch imports with itself, and the public names of the modules that its own
    come from: a file of PyTorch's has what it imports, and programs take it from there.
    """
    theirs = "torch" + module.__name__[len("flambeau"):]
    moved = {name: ours for (place, name), ours in OURS.items() if place == theirs and name not in vars(module)}
    places = dict.fromkeys(ours for (place, _), ours in OURS.items() if place == theirs)
    own = vars(module).get("__getattr__")

    def find(name):
        if name in moved:
            value = vars(module)[name] = getattr(import_module(moved[name]), name)
            return value
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                pass
        if not name.startswith("_"):
            for beside in map(import_module, places):
                if name in vars(beside):
                    return vars(beside)[name]
        return submodule(theirs, name, shown(module.__name__))

    module.__getattr__ = find


def submodule(theirs, name, place):
    """The module `name` below PyTorch's module `theirs`; AttributeError, which says `place`, where there is none."""
    if name.startswith("__") or not _exists(f"{theirs}.{name}"):
        raise AttributeError(f"module {place} has no attribute {shown(name)}")
    return import_module(f"{theirs}.{name}")


def _exists(name):
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:  # of a parent that is no package here
        return False


class _Package(ModuleType):
    """A package with a function that has the name of one of its modules: importing the module leaves the function."""

    def __setattr__(self, name, value):
        if not (isinstance(value, ModuleType) and callable(vars(self).get(name))):
            super().__setattr__(name, value)


def keep_function(fullname):
    """The import of the module sets no attribute of its package that is a function already: PyTorch's packages import
    their modules first, and then such functions from them."""
    package, _, name = fullname.rpartition(".")
    package = sys.modules.get(package)
    if type(package) is ModuleType and callable(vars(package).get(name)):
        package.__class__ = _Package


class _Made(Loader):
    """Makes a module of names that are kept elsewhere."""

    def create_module(self, spec):
        return ModuleType(spec.name, f"What PyTorch keeps in torch{spec.name[len('flambeau'):]}.")

    def exec_module(self, module):
        add_moved(module)


def _without_compiled(module):
    setattr(module, _COMPILED[module.__name__], lambda lib: False)


def _and_then(spec, *functions):
    """The spec, whose module is given to these functions when its file has run."""
    execute = getattr(spec and spec.loader, "exec_module", None)
    if execute is not None:
        def executed(module):
            execute(module)
            for function in functions:
                function(module)

        spec.loader.exec_module = executed
    return spec


class Finder(MetaPathFinder):
    """Stands before all others in `sys.meta_path`."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "torchvision" or fullname.startswith("torchvision."):
            return vision_spec(fullname)
        keep_function(fullname)
        if fullname.startswith("flambeau."):
            return self._ours(fullname, path, target)
        if fullname == "functorch" or fullname.startswith("functorch."):
            ours = "flambeau.as_torch." + fullname
            return ModuleSpec(fullname, Alias(ours), is_package=True) if _exists(ours) else None
        if fullname in _COMPILED:
            return _and_then(PathFinder.find_spec(fullname, path, target), _without_compiled)
        if not fullname.startswith("torch."):
            return None
        name = next(filter(_exists, (_TREE + fullname[len("torch"):], "flambeau" + fullname[len("torch"):])), None)
        return ModuleSpec(fullname, Alias(name), is_package=fullname not in _PROGRAMS) if name else None

    def _ours(self, fullname, path, target):
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            return ModuleSpec(fullname, _Made(), is_package=True) if fullname in _MADE else None
        return _and_then(spec, add_moved, rename)
