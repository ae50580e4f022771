"""Writes the type stubs `src/flambeau/_C.pyi` and `__init__.pyi` from the operator records.

    python tools/make_stubs.py            # write them
    python tools/make_stubs.py --check    # exit 1 where a file is not what would be written
"""

import inspect
import keyword
import re
import sys
import types
from pathlib import Path

import flambeau
from flambeau import _C
from flambeau.ops.kinds import OPS

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "flambeau"

TYPES = {
    "Tensor": "Tensor", "Scalar": "Number", "int": "builtins.int", "float": "builtins.float", "bool": "builtins.bool",
    "str": "builtins.str", "dtype": "DType", "device": "Device", "layout": "Format", "memory_format": "Format",
    "Generator": "Generator", "any": "Any",
}  # not int, dtype …: inside Tensor and the package these names are methods, attributes and dtypes
LISTS = {"Tensor": "Sequence[Tensor]", "int": "builtins.int | Sequence[builtins.int]", "float": "Sequence[builtins.float]",
         "bool": "Sequence[builtins.bool]"}
ARGUMENT = re.compile(r"(\w+)(\?)?(?:\[(\d*)\])?(\?)? (\w+)(?:=(.*))?$")

HEADER = '''"""Type stubs of {what}; written from the operator records by tools/make_stubs.py."""

import builtins
from collections.abc import Sequence
from typing import Any, overload

'''


def split_arguments(text):
    """The arguments between a schema's parentheses; commas inside brackets do not count."""
    return [a.strip() for a in re.split(r",(?![^\[]*\])", text) if a.strip()]


def annotation(kind, optional_item, length, optional, *, number):
    if length is not None:
        text = LISTS.get(kind, "Sequence[Any]")
        if kind == "Tensor" and optional_item:
            text = "Sequence[Tensor | None]"
        return text + (" | None" if optional else "")
    text = TYPES[kind] + (" | Number" if number else "")
    return text + (" | None" if optional_item or optional else "")


def parameters(op, *, method):
    """The parameter list of one record as Python writes it."""
    inside = op.schema[op.schema.index("(") + 1:op.schema.rindex(") ->")]
    shown, default_seen = [], False
    for k, text in enumerate(split_arguments(inside)):
        if text == "*":
            shown.append("*")
            continue
        kind, optional_item, length, optional, name, default = ARGUMENT.match(text).groups()
        if k == 0 and method:
            shown.append("self")
            continue
        if name == "self":
            name = "input"
        number = kind == "Tensor" and op.kind == "elementwise" and k > 0
        kind_text = annotation(kind, optional_item, length, optional, number=number)
        if default == "None" and "None" not in kind_text:
            kind_text += " | None"
        if keyword.iskeyword(name):
            name += "_"
        has_default = default is not None or (default_seen and "*" not in shown)
        default_seen |= default is not None
        shown.append(f"{name}: {kind_text}" + (" = ..." if has_default else ""))
    if op.takes_out:
        shown += ([] if "*" in shown else ["*"]) + ["out: Any = ..."]
    return shown


def result(op):
    text = op.schema[op.schema.rindex("->") + 2:].strip()
    if op.is_inplace:
        return "Tensor"
    if text == "Tensor":
        return "Tensor"
    if text == "Tensor[]":
        return "tuple[Tensor, ...]"
    if text.startswith("("):
        return f"tuple[{', '.join('Tensor' for _ in text.split(','))}]"
    return "Any" if text != "None" else "None"


def varargs(op):
    """`view(2, 3)`: the one list argument that may also be given item by item."""
    inside = split_arguments(op.schema[op.schema.index("(") + 1:op.schema.rindex(") ->")])
    positional = inside[:inside.index("*")] if "*" in inside else inside
    lists = [a for a in positional if re.match(r"int\[\d*\]\??", a)]
    return len(lists) == 1 and positional[-1] is lists[0] and len(positional) <= 2


def definitions(name, op, *, method, indent):
    """One `def` per form of the operator."""
    forms = list(op.alternatives or [op])
    lines = []
    for form in forms:
        lists = [parameters(form, method=method)]
        if varargs(form):
            fixed = lists[0]
            at = next(k for k, p in enumerate(fixed) if "builtins.int | Sequence" in p)
            star = [p for p in fixed[at + 1:] if p != "*"]
            lists.append([*fixed[:at], "*" + fixed[at].split(":")[0] + ": builtins.int", *star])
        lines += [(params, result(form)) for params in lists]
    text = []
    for params, returns in lines:
        if len(lines) > 1:
            text.append(f"{indent}@overload")
        text.append(f"{indent}def {name}({', '.join(params)}) -> {returns}: ...")
    return text


def python_signature(name, function, indent):
    if isinstance(function, types.BuiltinFunctionType):
        return f"{indent}def {name}(*args: Any, **kwargs: Any) -> Any: ..."
    try:
        names = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return f"{indent}def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    shown, star = [], False
    for p in names:
        if p.kind is p.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        star |= prefix == "*"
        default = " = ..." if p.default is not p.empty else ""
        shown.append(prefix + p.name + (": Any" + default if p.name != "self" else ""))
    return f"{indent}def {name}({', '.join(shown)}) -> Any: ..."


ATTRIBUTES = {
    "shape": "Size", "dtype": "DType", "device": "DeviceObject", "layout": "Format", "ndim": "builtins.int",
    "itemsize": "builtins.int", "nbytes": "builtins.int", "requires_grad": "builtins.bool", "grad": "Tensor | None",
    "grad_fn": "Node | None", "is_leaf": "builtins.bool", "retains_grad": "builtins.bool", "data": "Tensor",
    "output_nr": "builtins.int", "_version": "builtins.int", "_base": "Tensor | None",
}
OPERATORS = ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul and or xor "
             "lshift rshift iadd isub imul itruediv lt le gt ge").split()


def tensor_class():
    yield "class Tensor:"
    yield "    def __init__(self, *args: Any) -> None: ..."
    for name, value in sorted(vars(_C.Tensor).items()):
        if isinstance(value, _C.Op):
            yield from definitions(name, value, method=True, indent="    ")
        elif isinstance(value, (types.GetSetDescriptorType, property)):
            if not name.startswith("__"):
                yield f"    {name}: {ATTRIBUTES.get(name, 'builtins.bool' if name.startswith('is_') else 'Any')}"
        elif isinstance(value, types.FunctionType) and (not name.startswith("__") or name == "__iter__"):
            yield python_signature(name, value, "    ")
        elif isinstance(value, types.MethodDescriptorType) and not name.startswith("__"):
            yield f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    for name in OPERATORS:
        yield f"    def __{name}__(self, other: Any, /) -> Tensor: ..."
    for name in ("neg", "abs", "invert", "pos"):
        yield f"    def __{name}__(self) -> Tensor: ..."
    yield "    def __eq__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]"
    yield "    def __ne__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]"
    yield "    def __getitem__(self, index: Any, /) -> Tensor: ..."
    yield "    def __setitem__(self, index: Any, value: Any, /) -> None: ..."
    for name, kind in (("len", "int"), ("bool", "bool"), ("float", "float"), ("int", "int"), ("index", "int"), ("hash", "int")):
        yield f"    def __{name}__(self) -> builtins.{kind}: ..."


def small_classes():
    yield "Number = builtins.bool | builtins.int | builtins.float | builtins.complex"
    yield ""
    for name in ("dtype", "device", "memory_format", "Generator", "Node", "Op"):
        kind = getattr(_C, name)
        yield f"class {name}:"
        if name in ("device", "Generator"):
            yield "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."
        if name == "Op":
            yield "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ..."
        members = [m for m in sorted(vars(kind)) if not m.startswith("__")]
        for member in members:
            value = vars(kind)[member]
            method = isinstance(value, types.MethodDescriptorType)
            yield f"    def {member}(self, *args: Any) -> Any: ..." if method else f"    {member}: Any"
        if not members and name not in ("device", "Generator", "Op"):
            yield "    ..."
        yield ""
    yield "class Size(tuple[builtins.int, ...]):"
    yield "    def numel(self) -> builtins.int: ..."
    yield ""
    yield "class OutOfMemoryError(RuntimeError): ..."
    yield ""
    yield "layout = memory_format"
    yield "Format = memory_format"
    yield "DType = dtype | type"
    yield "DeviceObject = device"
    yield "Device = device | builtins.str | builtins.int"
    yield ""


def constants():
    yield from (f"{n}: {type(getattr(_C, n)).__name__}" for n in sorted(vars(_C))
                if isinstance(getattr(_C, n), (_C.dtype, _C.memory_format)))


def functions_of(module, done):
    for name, value in sorted(vars(module).items()):
        if name not in done and callable(value) and not isinstance(value, (type, _C.Op)) and not name.startswith("__"):
            yield f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."


def extension_stub():
    lines = [*small_classes(), *tensor_class(), "", *constants(), "default_generator: Generator", ""]
    lines += functions_of(_C, set())
    if hasattr(_C, "ModuleBase"):
        lines += ["class ModuleBase:", "    def __getattr__(self, name: str) -> Any: ..."]
    return HEADER.format(what="the extension module") + "\n".join(lines) + "\n"


def package_stub():
    names = sorted(n for n in dir(flambeau) if not n.startswith("_"))
    lines = ["from . import _C as _C"]
    loaded = [n for n in names if isinstance(getattr(flambeau, n, None), types.ModuleType)]
    lines += [f"from . import {n} as {n}" for n in loaded]
    native = [n for n in names if n in vars(_C) and getattr(flambeau, n) is getattr(_C, n) and n not in OPS]
    lines += [f"from ._C import {n} as {n}" for n in native]
    lines += ["from ._C import Device as Device, DType as DType, Format as Format, Number as Number, layout as layout", ""]
    for name in names:
        value = getattr(flambeau, name)
        if name in loaded or name in native or name == "layout":
            continue
        if isinstance(value, _C.Op):
            lines += definitions(name, value, method=False, indent="")
        elif isinstance(value, (_C.dtype, _C.memory_format)):
            lines.append(f"{name}: {type(value).__name__}")
        elif isinstance(value, type):
            lines.append(f"from .{value.__module__.removeprefix('flambeau.')} import {value.__name__} as {name}")
        elif callable(value):
            lines.append(python_signature(name, value, ""))
        else:
            lines.append(f"{name}: {'builtins.' + type(value).__name__ if value is not None else 'None'}")
    return HEADER.format(what="the package") + "\n".join(lines) + "\n"


def main():
    wrong = 0
    for file, text in (("_C.pyi", extension_stub()), ("__init__.pyi", package_stub())):
        path = PACKAGE / file
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{file} does not match the records: run python tools/make_stubs.py")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
