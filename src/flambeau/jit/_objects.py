"""Classes of one's own as a program has them: objects with methods, enumerations, named tuples, interfaces."""

import dataclasses
import enum
import inspect
import sys
import types

import flambeau

from .._places import is_ours
from .._shown import shown
from .._tensor.types import TensorType
from ..nn import Module
from ._classes import home_of
from ._compile import SPECIAL
from ._source import Source
from ._types import NotScriptable, resolved, type_of, type_text
from ._writing import number, quoted

_GRADIENTS = """
class NAME:
  before : bool
  def __init__(self: SELF) -> NoneType:
    self.before = ENABLED
    return None
  def __enter__(self: SELF) -> NoneType:
    self.before = torch.is_grad_enabled()
    torch.set_grad_enabled(ENABLED)
    return None
  def __exit__(self: SELF, kind: Any, value: Any, trace: Any) -> NoneType:
    torch.set_grad_enabled(self.before)
    return None
"""
_RECORD = """
class record_function:
  name : str
  args : Optional[str]
  record : Optional[RECORD]
  def __init__(self: SELF, name: str, args: Optional[str]=None) -> NoneType:
    self.name = name
    self.args = args
    self.record = None
    return None
  def __enter__(self: SELF) -> NoneType:
    self.record = ops.profiler._record_function_enter_new(self.name, self.args)
    return None
  def __exit__(self: SELF, kind: Any, value: Any, trace: Any) -> NoneType:
    record = self.record
    if torch.__isnot__(record, None):
      ops.profiler._record_function_exit(unchecked_cast(RECORD, record))
    return None
""".replace("RECORD", "__torch__.torch.classes.profiler._RecordFunction")
_AUTOCAST = """
class autocast:
  device : str
  fast_dtype : int
  _enabled : bool
  def __init__(self: SELF, device: str, dtype: int, enabled: bool) -> NoneType:
    self.device = device
    self.fast_dtype = dtype
    self._enabled = enabled
    return None
  def __enter__(self: SELF) -> NoneType:
    return None
  def __exit__(self: SELF, kind: Any, value: Any, trace: Any) -> NoneType:
    return None
"""
#: {context: its qualified name, its text}; PyTorch knows autocast by its name and its attributes
CONTEXTS = {
    "no_grad": ("__torch__.torch.autograd.grad_mode.no_grad", _GRADIENTS.replace("ENABLED", "False")),
    "enable_grad": ("__torch__.torch.autograd.grad_mode.enable_grad", _GRADIENTS.replace("ENABLED", "True")),
    "record_function": ("__torch__.torch.autograd.profiler.record_function", _RECORD),
    "autocast": ("__torch__.torch.amp.autocast_mode.autocast", _AUTOCAST),
}
#: of type.__flags__: classes that a program made, and those of C, which it may not change
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
_COMPARED = {"__eq__": "==", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


class Kinds:
    """The classes that a program uses, each written when it is first named.

    names       {class: qualified name}
    classes     {qualified name: class}
    attributes  {class: {name: type}}
    """

    def __init__(self, script):
        self.script, self.names, self.classes, self.attributes, self._results = script, {}, {}, {}, {}

    def name(self, kind):
        """The qualified name of a class of one's own; None for other types."""
        if kind not in self.names and _is_own(kind):
            home = home_of(kind)
            qualified = self.names[kind] = self.script.unused(home, kind.__name__)
            self.classes[qualified] = kind
            try:
                text = self._text(kind).replace(": SELF", f": {qualified}")
            except NotScriptable:
                del self.names[kind], self.classes[qualified]
                raise
            self.script.texts.setdefault(home, []).append(text)
        return self.names.get(kind)

    def context(self, name):
        """The qualified name of a context's class."""
        qualified, text = CONTEXTS[name]
        if name not in self.names:
            self.names[name] = qualified
            text = text.lstrip().replace("NAME", name).replace("SELF", qualified)
            self.script.texts.setdefault(qualified.rpartition(".")[0], []).append(text)
        return qualified

    def attribute(self, kind, name):
        """The type of an attribute, field or property; None where it is not told."""
        found = self.attributes.get(kind, {}).get(name)
        if found is not None:
            return found
        held = inspect.getattr_static(kind, name, None)
        return self.result(kind, name) if isinstance(held, property) else type_of(held) if held is not None else None

    def result(self, kind, name):
        """The type that a method or property of a class gives; None where it is not told."""
        if (kind, name) not in self._results:
            self._results[kind, name] = None  # it may call itself
            held = inspect.getattr_static(kind, name or "", None)
            function = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
            if isinstance(function, types.FunctionType) and function.__code__.co_filename != "<string>":
                own = None if isinstance(held, staticmethod) else kind
                self._results[kind, name] = Source(self.script, function, kind=own).result
        return self._results[kind, name]

    # ---- texts -------------------------------------------------------------------------------------------------------

    def _text(self, kind):
        name = kind.__name__
        if issubclass(kind, enum.Enum):
            return "\n".join([f"class {name}(Enum):", *(f"  {member.name} = {_literal(member.value, kind)}"
                                                       for member in kind), ""])
        if issubclass(kind, tuple):
            return "\n".join([f"class {name}(NamedTuple):", *self._fields(kind), ""])
        if getattr(kind, "_jit_interface", False):
            return self._interface(kind)
        methods = self._methods(kind)
        declared = [f"  {name} : {type_}" for name, type_ in self.attributes[kind].items()]
        return "\n".join([f"class {name}:", *declared, *methods]) + "\n"

    def _fields(self, kind):
        scope = vars(sys.modules.get(kind.__module__, flambeau))
        hints = {name: resolved(hint, scope) for name, hint in getattr(kind, "__annotations__", {}).items()}
        self.attributes[kind] = {name: type_text(hints.get(name, flambeau.Tensor), self.name) for name in kind._fields}
        return [f"  {name} : {type_}" for name, type_ in self.attributes[kind].items()]

    def _interface(self, kind):
        base = "ModuleInterface" if issubclass(kind, Module) else "Interface"
        lines = [f"class {kind.__name__}({base}):"]
        for name, function in vars(kind).items():
            if isinstance(function, types.FunctionType) and not name.startswith("__"):
                source = Source(self.script, function, kind=kind)
                lines.append(f"  {source.head(name).replace('self: SELF', 'self')}\n    pass")
        return "\n".join(lines) + "\n"

    def _methods(self, kind):
        """The texts of all methods; that of __init__, which comes first, tells the attributes."""
        self.attributes[kind] = {}
        found = {"__init__": None}
        for base in reversed(kind.__mro__[:-1]):
            found.update(vars(base))
        sources = []
        for name, held in found.items():
            if name == "__init__" and held is None:
                sources.append("def __init__(self: SELF) -> NoneType:\n  return None\n")
            elif isinstance(held, property):
                for part, function in (("getter", held.fget), ("setter", held.fset)):
                    if function is not None:
                        sources.append(Source(self.script, function, kind=kind).text(f"__{name}_{part}"))
            elif isinstance(held, types.FunctionType) and not getattr(held, "_jit_unused", False) and (
                    (name in SPECIAL and name != "__repr__") or not name.startswith("__")):
                text = _of_dataclass(kind, name) if held.__code__.co_filename == "<string>" else None
                if text is not None or held.__code__.co_filename != "<string>":
                    sources.append(Source(self.script, held, kind=kind, text=text).text(name))
        return ["\n".join(f"  {line}" for line in text.splitlines()) for text in sources]


def _is_own(kind):
    written_in_python = isinstance(kind, type) and bool(kind.__flags__ & _HEAP) and not kind.__flags__ & _IMMUTABLE
    if not written_in_python or isinstance(kind, TensorType):
        return False
    if is_ours(kind.__module__ or "") or kind.__module__ in ("typing", "types"):
        return False
    if issubclass(kind, enum.Enum) and issubclass(kind, (int, str)):
        return False
    is_interface = getattr(kind, "_jit_interface", False)
    return is_interface or (not issubclass(kind, (Module, BaseException, list, dict, str, int, float)) and (
        not issubclass(kind, tuple) or hasattr(kind, "_fields")))


def _literal(value, kind):
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (int, float)):
        return number(value)
    raise NotScriptable(f"jit.script: members of enumerations are texts and numbers in TorchScript, {kind.__name__} "
                        f"has {shown(value)}")


def _kept(field):
    """"field", or what a dataclass does not keep: "InitVar", "ClassVar"."""
    kinds = {dataclasses._FIELD: "field", dataclasses._FIELD_INITVAR: "InitVar"}
    return kinds.get(field._field_type, "ClassVar")


def _of_dataclass(kind, name):
    """The source of a method that `dataclass` makes; None for those that programs do without."""
    fields = [f for f in vars(kind)["__dataclass_fields__"].values() if f.init and _kept(f) != "ClassVar"]
    if name == "__init__":
        if any(f.default_factory is not dataclasses.MISSING for f in fields):
            raise NotScriptable(f"jit.script: the dataclass {kind.__name__} has a field with default_factory, which a "
                                "program has not; write __init__")
        given = [f.name if f.default is dataclasses.MISSING else f"{f.name}={f.default!r}" for f in fields]
        body = [f"  self.{f.name} = {f.name}" for f in fields if _kept(f) == "field"]
        passed = ", ".join(f.name for f in fields if _kept(f) == "InitVar")
        body += [f"  self.__post_init__({passed})"] * hasattr(kind, "__post_init__")
        return "\n".join([f"def __init__({', '.join(['self', *given])}):", *body])
    if name not in _COMPARED:
        return None
    fields = [f for f in fields if f.compare and _kept(f) == "field"]
    both = [f"({', '.join(f'{side}.{f.name}' for f in fields)},)" for side in ("self", "other")]
    if name == "__eq__":
        same = " and ".join(f"self.{f.name} == other.{f.name}" for f in fields)
        return f"def __eq__(self, other: SELF):\n  return {same or True}"
    return f"def {name}(self, other: SELF):\n  return {both[0]} {_COMPARED[name]} {both[1]}"
