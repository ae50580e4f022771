"""Writes the type stubs of the whole package: `make_stubs.py SOURCE EXTENSION FOLDER`.

The build runs it once `_C` is built. Every module gets a stub beside it, so that type checkers know each public name:
operators by their records (stub_operators.py), functions and classes by their code and the tables (stub_python.py,
stub_types.py), re-exports by where they come from.
"""

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
import typing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import stub_types as tables
from stub_operators import OperatorStubs
from stub_python import ClassStub, signature

HEAD = '''"""Types of the public names, generated (cmake/make_stubs.py)."""

# ruff: noqa
from builtins import bool as _bool, bytes as _bytes, complex as _complex, dict as _dict, float as _float, int as _int
from builtins import list as _list, object as _object, set as _set, str as _str, tuple as _tuple, type as _type
from collections.abc import Callable, Generator as _Generator_, Iterable, Iterator, Sequence
from contextlib import _GeneratorContextManager
from enum import Enum as _Enum, IntEnum as _IntEnum
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, overload
'''
ROOT = """
_dtype: TypeAlias = dtype
_device: TypeAlias = device
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
_Size: TypeAlias = Size
_Tensor: TypeAlias = Tensor
_Generator: TypeAlias = Generator
from flambeau.nn.parameter import Parameter as _Parameter
from flambeau.nn.modules.module import Module as _Module
from flambeau.optim.optimizer import Optimizer as _Optimizer
from flambeau.utils.hooks import RemovableHandle as _RemovableHandle
"""
OTHERS = """from flambeau import Generator as _Generator, Size as _Size, Tensor as _Tensor
from flambeau import device as _device, dtype as _dtype, layout as _layout, memory_format as _memory_format
from flambeau.nn.modules.module import Module as _Module
from flambeau.nn.parameter import Parameter as _Parameter
from flambeau.optim.optimizer import Optimizer as _Optimizer
from flambeau.utils.hooks import RemovableHandle as _RemovableHandle
"""
TAIL = """
_Number: TypeAlias = _int | _float | _bool | _complex
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_F = TypeVar("_F", bound=Callable[..., Any])
"""
#: names that a module or a class may have itself: annotations use the underscored ones
SHADOWED = set("bool bytes complex dict float int list object set str tuple type dtype device layout memory_format "
               "Size Tensor Generator_ Generator Number Parameter Module Optimizer RemovableHandle".split())
#: programs, what is imported with side effects, and what needs NumPy to be imported: stubs are made without it
LEFT_OUT = ("flambeau.__main__", "flambeau.cli", "flambeau._files.arrays")


@functools.cache
def annotated(line):
    """The line with the underscored names in its annotations."""
    text = line.lstrip()
    if not text.startswith("def ") and not re.match(r"\w+: ", text):
        return line
    node = ast.parse(text).body[0]
    if isinstance(node, ast.AnnAssign):
        found = [node.annotation]
    else:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        found = [a.annotation for a in every if a is not None and a.annotation] + [node.returns]
    names = [n for a in found if a for n in ast.walk(a) if isinstance(n, ast.Name) and n.id in SHADOWED]
    for name in sorted(names, key=lambda n: -n.col_offset):
        text = f"{text[:name.col_offset]}_{text[name.col_offset:]}"
    return line[:len(line) - len(line.lstrip())] + text


class Stubs:
    """The stubs of one package."""

    def __init__(self, package):
        self.package = package
        self.describe = importlib.import_module("flambeau.ops._describe")
        self.operators = None

    def modules(self):
        """Every module of the package, imported."""
        yield self.package
        for found in pkgutil.walk_packages(self.package.__path__, "flambeau."):
            if not found.name.startswith(LEFT_OUT) and found.name != "flambeau._C":
                yield importlib.import_module(found.name)
        yield self.package._C
        for name, module in sorted(sys.modules.items()):  # modules that others make, which have no file
            if name.startswith("flambeau.distributions.") and getattr(module, "__spec__", None) is None:
                yield module

    def files(self):
        """{path below the package: text}."""
        return {self.path(module): self.text(module) for module in list(self.modules())}

    def path(self, module):
        parts = module.__name__.split(".")[1:]
        if hasattr(module, "__path__"):
            return "/".join([*parts, "__init__.pyi"])
        return "/".join(parts) + ".pyi"

    def text(self, module):
        """The stub of one module."""
        self.operators = OperatorStubs()
        self.module, self.imports = module, set(filter(None, [tables.IMPORTS.get(module.__name__)]))
        root = module is self.package
        lines = list(self.tensor()) if root else []
        for name in self.names(module):
            lines += self.entry(name, getattr(module, name))
        if module.__name__ in tables.MORE:
            lines.append(tables.MORE[module.__name__])
        if not root and "__all__" in vars(module):
            lines.append(f"__all__ = {sorted(n for n in module.__all__ if n in vars(module))!r}")
        lines = [annotated(line) for line in lines]
        named = [annotated_class(text) for text in self.operators.classes()]
        head = HEAD + ("" if root else OTHERS) + TAIL
        return "\n".join([head, *sorted(self.imports), "", *named, "", *lines, ROOT if root else "", ""])

    def names(self, module):
        """Public names; private classes too, which may be bases; submodules of the package."""
        classes = {n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__}
        for name in sorted(set(dir(module)) | classes):
            if name.startswith("_") and name not in ("__version__", "__config__", "__future__") and name not in classes:
                continue
            if (module is self.package and name == "Tensor") or name == "cli":
                continue
            try:
                getattr(module, name)
            except (AttributeError, ImportError, NotImplementedError):
                continue
            yield name

    def entry(self, name, value):
        """The lines of one name; a re-export goes to self.imports."""
        here = self.module.__name__
        if inspect.ismodule(value):
            if value.__name__.startswith("flambeau") and not value.__name__.startswith(LEFT_OUT):
                parent, _, last = value.__name__.rpartition(".")
                self.imports.add(f"from {parent} import {last} as {name}" if parent else f"import {last} as {name}")
            return
        if type(value).__name__ == "Op":
            yield from self.operators.lines(name, value, self.describe)
            return
        source = self.source(value)
        if source is not None and source[1] == name:
            self.imports.add(f"from {source[0]} import {name} as {name}")
        elif source is not None:  # an older name
            self.imports.add(f"from {source[0]} import {source[1]} as _{source[1]}_")
            yield f"{name} = _{source[1]}_"
        elif inspect.isclass(value):
            if value.__module__.startswith(("flambeau", "torch")):
                yield from self.class_lines(value, name)
            elif self.reexported(name):
                self.imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif inspect.isfunction(value) and not (value.__module__ or "").startswith("flambeau"):
            if self.reexported(name):
                self.imports.add(f"from {value.__module__} import {value.__qualname__} as {name}")
        elif inspect.isfunction(value):
            yield from self.function(name, value)
        elif isinstance(value, (types.UnionType, typing.TypeVar)) or typing.get_origin(value) is not None:
            yield f"{name}: TypeAlias = Any"
        elif callable(value) and not hasattr(type(value), "__dict__"):
            yield f"{name}: Callable[..., Any]"
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodType)) or type(value).__name__ == "nb_func":
            yield f"def {name}{signature(value, f'{here}.{name}', here)}: ..."
        else:
            yield f"{name}: {self.constant(value)}"

    def function(self, name, value):
        """The definitions of a function of this module."""
        texts = signature(value, f"{self.module.__name__}.{name}", self.module.__name__)
        texts = [texts] if isinstance(texts, str) else texts
        for text in texts:  # a method's function, as the module has it
            text = re.sub(r"^\(self(?=[,)])", "(self: Any", text)
            yield from [f"def {name}{text}: ..."] if len(texts) == 1 else ["@overload", f"def {name}{text}: ..."]

    def reexported(self, name):
        """Whether the module says `import name as name`, or lists it in __all__."""
        if name in getattr(self.module, "__all__", ()):
            return True
        path = getattr(self.module, "__file__", None) or ""
        text = Path(path).read_text(encoding="utf-8") if path.endswith(".py") else ""
        return bool(re.search(rf"\b{name} as {name}\b", text))

    def source(self, value):
        """(module, name) of what another module of the package defines; None for what is defined here."""
        place, qualname = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
        if place == "torch":  # the types of storages and of tensors carry PyTorch's module
            place = next((m for m in ("flambeau._tensor.storage", "flambeau._tensor.types")
                          if vars(sys.modules[m]).get(qualname) is value), "")
        if not place.startswith("flambeau") or place == self.module.__name__ or not qualname or "." in qualname:
            return None
        if place == "flambeau._C" or (place == "flambeau" and not hasattr(self.package, qualname)):
            return None
        found = vars(sys.modules.get(place, types.ModuleType(""))).get(qualname)
        if found is not value:
            return None
        if place == "flambeau" and self.module is self.package:
            return None
        return place, qualname

    def class_lines(self, cls, name):
        if cls.__module__ in ("flambeau", "flambeau._C", "torch.return_types") and not hasattr(cls, "_is_python"):
            yield from self.native_class(cls, name)
        else:
            yield from ClassStub(cls, name, self.module.__name__, self).lines()

    def native_class(self, cls, name):
        if name == "Size":
            yield "class Size(_tuple[_int, ...]):"
            yield "    def __new__(cls, iterable: Iterable[_int] = ..., /) -> Self: ..."
            yield "    def numel(self) -> _int: ..."
            return
        base = "RuntimeError" if issubclass(cls, Exception) else "_tuple[Any, ...]" if issubclass(cls, tuple) else ""
        yield f"class {name}({base}):" if base else f"class {name}:"
        body = [] if base else ["def __init__(self, *args: Any, **kwargs: Any) -> None: ..."]
        for member, value in vars(cls).items():
            if member.startswith("_") and member not in ("__enter__", "__exit__", "__getattr__", "__setattr__"):
                continue
            if member == "__exit__":
                body.append("def __exit__(self, *args: object) -> None: ...")
            elif callable(value):
                body.append(f"def {member}{native_method(name, member)}: ...")
            elif not issubclass(cls, Exception):
                body.append(f"{member}: {'bool' if member.startswith('is_') else 'Any'}")
        yield from ["    " + line for line in body] or ["    ..."]

    def reference(self, cls, module):
        """The name of a base class, imported where needed; nothing for what the stubs do not know."""
        if cls.__module__ == "builtins" and cls is not types.ModuleType:
            return {"list": "_list[Any]", "tuple": "_tuple[Any, ...]", "dict": "_dict[Any, Any]",
                    "set": "_set[Any]", "type": "_type"}.get(cls.__name__, cls.__name__)
        if cls.__name__ == "ModuleBase":
            return ""
        if cls is types.ModuleType:
            self.imports.add("from types import ModuleType as _ModuleType")
            return "_ModuleType"
        if cls.__module__ == module:
            return cls.__qualname__
        if cls.__module__ == "enum":
            return "_" + cls.__name__ if cls.__name__ in ("Enum", "IntEnum") else "_Enum"
        if cls.__module__ == "flambeau" and hasattr(self.package, cls.__qualname__):
            self.imports.add(f"from flambeau import {cls.__qualname__} as _base_{cls.__qualname__}")
            return f"_base_{cls.__qualname__}"
        if cls.__module__.startswith("flambeau") and "." not in cls.__qualname__:
            name = f"_base_{cls.__module__.replace('.', '_')}_{cls.__qualname__}"
            self.imports.add(f"from {cls.__module__} import {cls.__qualname__} as {name}")
            return name
        return ""

    def constant(self, value):
        """The type of a value that is neither function nor class."""
        kind = type(value).__name__
        known = {"dtype": "dtype", "memory_format": "memory_format", "Generator": "Generator", "NoneType": "None",
                 "bool": "bool", "int": "int", "float": "float", "str": "str", "dict": "dict[Any, Any]",
                 "tuple": "tuple[Any, ...]", "list": "list[Any]", "set": "set[Any]"}
        return known.get(kind, "Any")

    def tensor(self):
        """The Tensor class: Python's operators, then the methods, then the attributes."""
        yield "class Tensor:"
        yield "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."
        for name, argument in tables.OPERATORS.items():
            ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
            yield f"    def __{name}__(self{', ' + argument if argument else ''}) -> Tensor: ...{ignore}"
        for name in tables.IN_PLACE:
            yield f"    def __{name}__(self, other: Any) -> Self: ..."
        for name, kind in {"bool": "bool", "int": "int", "float": "float", "complex": "complex", "len": "int",
                           "index": "int", "hash": "int"}.items():
            yield f"    def __{name}__(self) -> {kind}: ..."
        yield "    def __iter__(self) -> Iterator[Tensor]: ..."
        yield "    def __contains__(self, element: Any) -> bool: ..."
        yield "    def __getitem__(self, index: Any) -> Tensor: ..."
        yield "    def __setitem__(self, index: Any, value: Any) -> None: ..."
        yield "    def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ..."
        yield "    def __dlpack__(self, **kwargs: Any) -> Any: ..."
        for name, value in sorted(vars(self.package.Tensor).items()):
            if not name.startswith("_"):
                yield from ("    " + line for line in self.tensor_member(name, value))

    def tensor_member(self, name, value):
        if type(value).__name__ == "OpMethod":
            yield from self.operators.lines(name, value.__wrapped__, self.describe, method=True)
        elif name in tables.METHODS:
            forms = [f"def {name}{text}: ..." for text in tables.METHODS[name]]
            yield from forms if len(forms) == 1 else (line for form in forms for line in ("@overload", form))
        elif type(value).__name__ in ("property", "getset_descriptor"):
            kind = tables.PROPERTIES.get(name, "bool" if name.startswith(("is_", "retains")) else "Any")
            read_only = ["@property", f"def {name}(self) -> {kind}: ..."]
            yield from [f"{name}: {kind}"] if name in tables.SETTABLE else read_only
        elif callable(value):
            text = signature(value, f"flambeau._tensor.methods.{name}", "flambeau._tensor.methods", in_class=True)
            if name.endswith("_") and text.endswith("Any"):
                text = text.removesuffix("Any") + "Self"
            yield f"def {name}{text}: ..."


def native_method(cls, name):
    """What methods of native classes take and give."""
    if cls == "Generator":
        result = {"seed": "int", "initial_seed": "int", "get_state": "Tensor", "set_state": "Self",
                  "manual_seed": "Self", "clone_state": "Generator"}.get(name, "Any")
        argument = {"manual_seed": "seed: int", "set_state": "state: Tensor"}.get(name)
        return f"(self{', ' + argument if argument else ''}) -> {result}"
    result = "dtype" if name in ("to_real", "to_complex") else "None" if name == "__setattr__" else "Any"
    return f"(self, *args: Any, **kwargs: Any) -> {result}"


def annotated_class(text):
    return text.replace(": Tensor", ": _Tensor")


def load(source, extension):
    """The package as it is in `source`, with the extension from where the build put it."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source))
    spec = importlib.util.spec_from_file_location("flambeau._C", extension)
    sys.modules["flambeau._C"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["flambeau._C"])
    return importlib.import_module("flambeau")


def write(package, folder):
    """All stubs, below the folder; returns their number."""
    texts = Stubs(package).files()
    for path, text in texts.items():
        target = Path(folder, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return len(texts)


if __name__ == "__main__":
    source, extension, folder = sys.argv[1:]
    write(load(source, extension), folder)
