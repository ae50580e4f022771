"""Writes the type stub flambeau/__init__.pyi from the records: `make_stubs.py SOURCE EXTENSION OUTPUT`.

The build runs it once `_C` is built. Operators are typed by their schemas; everything else that is public is either
imported from the module that defines it or typed by what it is.
"""

import importlib.util
import inspect
import keyword
import pkgutil
import re
import sys
from pathlib import Path

HEAD = '''"""Types of the public names, generated from the operators' records (cmake/make_stubs.py)."""

# the package has names of its own for these
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

Number: TypeAlias = _int | _float | _bool | _complex
_dtype: TypeAlias = dtype
_device: TypeAlias = device | str | _int
_layout: TypeAlias = layout
_memory_format: TypeAlias = memory_format
'''

TYPES = {  # schema type -> annotation
    "Tensor": "Tensor", "Scalar": "Number", "int": "_int", "float": "_float", "bool": "_bool", "str": "str",
    "dtype": "_dtype", "device": "_device", "layout": "_layout", "memory_format": "_memory_format",
    "Generator": "Generator", "any": "Any", "Tensor[]": "Sequence[Tensor]", "Tensor?[]": "Sequence[Tensor | None]",
    "int[]": "_int | Sequence[_int]", "float[]": "Sequence[_float]", "bool[]": "Sequence[_bool]",
}
PARAMETER = re.compile(r"(?P<type>\S+) (?P<name>\w+)(?:=(?P<default>.*))?$", re.DOTALL)


def split(text):
    """At the commas outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for k, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def annotation(kind, takes_number=False):
    optional = kind.endswith("?")
    kind = kind.removesuffix("?")
    sized = re.fullmatch(r"(\w+)\[\d+\]", kind)
    text = f"{TYPES[sized[1]]} | Sequence[{TYPES[sized[1]]}]" if sized else TYPES[kind]
    if takes_number and kind == "Tensor":
        text += " | Number"
    return f"{text} | None" if optional else text


class Signature:
    """A schema as the parts of a Python signature."""

    def __init__(self, op):
        self.name = op.name.rpartition(".")[0] or op.name
        text, results = op.schema.rsplit(") -> ", 1) if ") -> " in op.schema else (op.schema.rstrip(")"), "Tensor")
        self.parameters = split(text.partition("(")[2])
        self.results = results.strip()
        self.elementwise = op.kind == "elementwise"
        self.takes_out = op.takes_out

    def returns(self, tuples):
        names = re.findall(r"Tensor (\w+)", self.results)
        if names:
            tuples[names_of := "_" + "_".join(names)] = names
            return names_of
        if self.results in ("Tensor[]", "Tensor"):
            return "tuple[Tensor, ...]" if self.results == "Tensor[]" else "Tensor"
        return "None" if self.results == "()" else "Any"

    def parts(self, method):
        """The parameters' texts, by name; "*" stands for itself."""
        parts = {}
        for k, part in enumerate(self.parameters):
            if part == "*":
                parts["*"] = "*"
                continue
            found = PARAMETER.match(part)
            label, kind = found["name"], annotation(found["type"], self.elementwise and k > 0)
            if k == 0 and label == "self":
                parts[label] = "self" if method else f"input: {kind}"
                continue
            spelled = label + "_" if keyword.iskeyword(label) else label
            parts[label] = f"{spelled}: {kind}" + ("" if found["default"] is None else " = ...")
        if self.takes_out and not method:
            parts.setdefault("*", "*")
            parts["out"] = "out: Any = ..."
        return parts

    def text(self, name, tuples, method):
        return f"def {name}({', '.join(self.parts(method).values())}) -> {self.returns(tuples)}: ..."

    def with_sizes_apart(self, name, tuples, method):
        """The form x.view(2, 3) or ones(2, 3), where the first argument is a list of ints; or None."""
        first = 1 if self.parameters and self.parameters[0] == "Tensor self" else 0
        found = PARAMETER.match(self.parameters[first]) if len(self.parameters) > first else None
        if not found or found["type"] != "int[]" or (first and not method):
            return None
        parts = self.parts(method)
        parts.pop("*", None)
        parts[found["name"]] = f"*{found['name']}: _int"
        return f"def {name}({', '.join(parts.values())}) -> {self.returns(tuples)}: ..."


def operator(name, op, tuples, method=False):
    """The lines of one operator: an overload for each of its schemas and forms."""
    forms = []
    for alternative in op.alternatives or [op]:
        signature = Signature(alternative)
        forms.append(signature.text(name, tuples, method))
        if apart := signature.with_sizes_apart(name, tuples, method):
            forms.append(apart)
    forms = list(dict.fromkeys(forms))
    return forms if len(forms) == 1 else [line for form in forms for line in ("@overload", form)]


def table(*rows):
    """{name: type} of rows (type, "name name …")."""
    return {name: kind for kind, names in rows for name in names.split()}


OPERATORS = table(
    ("other: Any", "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul"),
    ("other: Any", "and rand or ror xor rxor lshift rshift lt le gt ge eq ne iadd isub imul itruediv"),
    ("", "neg pos abs invert"))
PROPERTIES = table(
    ("Size", "shape"), ("_dtype", "dtype"), ("_layout", "layout"), ("_int", "ndim itemsize nbytes output_nr"),
    ("_bool", "requires_grad"), ("Tensor | None", "grad"), ("Tensor", "data T mT H mH real imag"))
METHODS = table(
    ("Tensor", "to bool byte char short int long half bfloat16 float double cfloat cdouble cpu type_as detach detach_"),
    ("Tensor", "requires_grad_ as_subclass"),
    ("_int", "dim ndimension numel nelement data_ptr storage_offset element_size get_device"),
    ("_bool", "is_floating_point is_complex is_contiguous is_inference equal allclose"), ("None", "backward"))
CONSTANTS = table(("_dtype", "dtype"), ("_memory_format", "memory_format"), ("_float", "float"), ("str", "str"),
                  ("None", "NoneType"), ("Generator", "Generator"))


def tensor_class(flambeau, tuples):
    """The Tensor class: operators that are methods, then the rest by what it is."""
    yield "class Tensor:"
    for name in OPERATORS:
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        argument = f", {OPERATORS[name]}" if OPERATORS[name] else ""
        yield f"    def __{name}__(self{argument}) -> Tensor: ...{ignore}"
    for name, result in {"bool": "_bool", "int": "_int", "float": "_float", "len": "_int", "index": "_int"}.items():
        yield f"    def __{name}__(self) -> {result}: ..."
    yield "    def __iter__(self) -> Iterator[Tensor]: ..."
    yield "    def __getitem__(self, index: Any) -> Tensor: ..."
    yield "    def __setitem__(self, index: Any, value: Any) -> None: ..."
    for name, value in sorted(vars(flambeau.Tensor).items()):
        if name.startswith("_"):
            continue
        if type(value).__name__ == "Op":
            yield from ("    " + line for line in operator(name, value, tuples, method=True))
        elif type(value).__name__ in ("property", "getset_descriptor"):
            yield f"    {name}: {PROPERTIES.get(name, '_bool' if name.startswith(('is_', 'retains')) else 'Any')}"
        elif callable(value):
            yield f"    def {name}(self, *args: Any, **kwargs: Any) -> {METHODS.get(name, 'Any')}: ..."


def stub(flambeau):
    """The whole text."""
    tuples, lines = {}, []
    modules = [module.name for module in pkgutil.iter_modules(flambeau.__path__) if not module.name.startswith("_")]
    # by what is there, not by what happens to be imported; some names are functions as well
    imports = [f"from . import {name} as {name}" for name in modules
               if name != "cli" and inspect.ismodule(vars(flambeau).get(name, inspect))]
    for name in sorted(set(dir(flambeau))):
        if name.startswith("_") and name != "__version__":
            continue
        value = getattr(flambeau, name)
        if inspect.ismodule(value):
            continue
        kind = type(value).__name__
        module = getattr(value, "__module__", None) or ""
        if name == "Tensor":
            lines += tensor_class(flambeau, tuples)
        elif kind == "Op":
            lines += operator(name, value, tuples)
        elif module.startswith("flambeau.") and "_C" not in module and hasattr(value, "__qualname__"):
            imports.append(f"from {module.removeprefix('flambeau')} import {value.__qualname__} as {name}")
        elif inspect.isclass(value):
            base = "tuple[_int, ...]" if name == "Size" else "RuntimeError" if name.endswith("Error") else "Any"
            lines.append(f"class {name}({base}):" + "\n    def __init__(self, *args: Any, **kwargs: Any) -> None: ...")
        elif callable(value):
            lines.append(f"{name}: Callable[..., Any]")
        else:
            lines.append(f"{name}: {CONSTANTS.get(kind, 'Any')}")
    named = [f"class {name}(NamedTuple):\n" + "\n".join(f"    {field}: Tensor" for field in fields)
             for name, fields in sorted(tuples.items())]
    return "\n".join([HEAD, *sorted(imports), "", *named, "", *lines, ""])


def load(source, extension):
    """The package as it is in `source`, with the extension from where the build put it."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source))
    spec = importlib.util.spec_from_file_location("flambeau._C", extension)
    sys.modules["flambeau._C"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["flambeau._C"])
    return importlib.import_module("flambeau")


if __name__ == "__main__":
    source, extension, output = sys.argv[1:]
    Path(output).write_text(stub(load(source, extension)), encoding="utf-8")
