"""A program of TorchScript: its definitions by their qualified names, each compiled when it is first asked for."""

import ast
import builtins
import collections
import enum
import functools
import operator as operator_of
import re
import textwrap
import typing

import flambeau

from .._shown import shown
from ._compile import SPECIAL, NotScript, dotted, executed, function_def, parsed
from ._given import opened, taken
from ._modules import Autocast, RecursiveScriptModule, ScriptFunction, ScriptObject, showing
from ._operators import operator

_TYPES = {"Tensor": flambeau.Tensor, "int": int, "float": float, "bool": bool, "str": str, "complex": complex,
          "NoneType": type(None), "None": type(None), "number": int | float | complex, "Device": flambeau.device,
          "device": flambeau.device, "Any": typing.Any, "AnyList": list, "AnyTuple": tuple, "list": list,
          "tuple": tuple}
_GENERIC = {"List": list, "Dict": dict, "Tuple": tuple, "list": list, "dict": dict, "tuple": tuple}
#: what native code that a program calls looks for in the frame of its caller; no text can name it
_ONLY = {"__import__": builtins.__import__}
#: classes that mean more than their texts say
_BASES = {f"__torch__.torch.{home}.autocast_mode.autocast": Autocast for home in ("amp", "cuda.amp", "cpu.amp")}
#: attributes of every Module that a class of a program may not have
_TAKEN = frozenset(dir(RecursiveScriptModule)) - {"forward", "training", "extra_repr"} | frozenset(
    vars(flambeau.nn.Module())) - {"training"}
#: the methods of a property
PROPERTY = re.compile(r"__([A-Za-z]\w*?)_(?:getter|setter)$")
#: dunder methods that a module of a program may have
_OF_MODULES = frozenset(("__len__", "__contains__", "__getitem__"))


class Kind:
    """What a text says of a class: its base, the names of its attributes, its methods."""

    def __init__(self, qualified, node, filename, text):
        self.qualified, self.node, self.filename, self.text = qualified, node, filename, text
        base = dotted(node.bases[0]) if node.bases else None
        self.base = base[-1] if base else ""
        self.parameters, self.buffers, self.types, self.constants, self.methods, self.members = [], [], {}, {}, {}, {}
        self.hooks = {}  # {table: names of methods}
        for item in node.body:
            self._take(item)
        self.open_names = frozenset((*self.types, *self.methods, *self.constants)) - {"_is_full_backward_hook"}
        for name in self.open_names:
            special = _OF_MODULES if self.base == "Module" else SPECIAL
            is_method = name in self.methods and (name in special or PROPERTY.match(name))
            if (name.startswith("__") and not is_method) or (
                    self.base == "Module" and name in _TAKEN and name not in special) or (
                    name in ("_kind", "_program", "_open_names")):
                raise NotScript(f"jit: {filename}: the class {shown(node.name)} may not have an attribute "
                                f"{shown(name)}")
        if any(name not in self.methods for names in self.hooks.values() for name in names):
            raise NotScript(f"jit: {filename}: the class {shown(node.name)} lists a hook that it has not")

    def _take(self, item):
        if isinstance(item, ast.FunctionDef):
            self.methods[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            self._declare(item.target.id, item.annotation, item.value)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            self._assigned(item.targets[0].id, item.value)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Subscript):
            self._declare(ast.literal_eval(item.targets[0].slice), item.value, None)  # __annotations__["0"] = …
        elif not isinstance(item, (ast.Pass, ast.Expr)):
            raise NotScript(f"jit: {self.filename}, line {item.lineno}: no declaration of a class")

    def _assigned(self, name, value):
        tables = {"__parameters__": self.parameters, "__buffers__": self.buffers}
        if name in tables:
            tables[name] += ast.literal_eval(value)
        elif name == "__annotations__" and isinstance(value, ast.List) and not value.elts:
            pass  # entries follow
        elif name in ("__forward_hooks__", "__forward_pre_hooks__"):
            self.hooks[name] = ast.literal_eval(value)
        elif self.base == "Enum":
            self.members[name] = ast.literal_eval(value)
        else:
            raise NotScript(f"jit: {self.filename}: the class {shown(self.node.name)} assigns {shown(name)}")

    def _declare(self, name, annotation, value):
        if type(name) is not str:
            raise NotScript(f"jit: {self.filename}: an attribute {shown(name)}")
        self.types[name] = annotation
        if value is not None:
            self.constants[name] = _literal(value)

    def source(self, name):
        """The text of a method."""
        return _segment(self.text, self.methods[name])


def _literal(node):
    """A constant of a class: numbers, texts, tuples and lists of them."""
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Name):
        return -_literal(node.operand)
    if isinstance(node, (ast.Tuple, ast.List)):
        return (tuple if isinstance(node, ast.Tuple) else list)(map(_literal, node.elts))
    if isinstance(node, ast.Call) and node.args and dotted(node.func) in (["annotate"], ["torch", "device"]):
        return _literal(node.args[-1]) if node.func is not None and len(node.args) == 2 else flambeau.device(
            ast.literal_eval(node.args[0]))
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise NotScript(f"jit: line {node.lineno}: {ast.unparse(node)} is no constant") from None


def _segment(text, node):
    """The lines of a definition."""
    return textwrap.dedent(ast.get_source_segment(text, node, padded=True)) + "\n"


class Program:
    """Texts by the names of their modules, and what they define.

    texts      {"__torch__.package.module": text}
    constants  the values of CONSTANTS.c0, CONSTANTS.c1, …
    name       of the file they come from, for tracebacks
    octal      whether texts have the bytes of UTF-8 one by one, as archives do
    """

    def __init__(self, texts, constants=(), name="<jit>", octal=False):
        self.texts, self.constants, self.file, self.octal = texts, tuple(constants), name, octal
        self.operators = {}  # what differs from the table
        self.is_frozen = False  # whether what does not change is constant
        self.scope = {"__builtins__": _ONLY, "__name__": "__torch__"}
        self.kinds, self.functions, self._parsed, self._made = {}, {}, {}, {}

    # ---- finding -----------------------------------------------------------------------------------------------------

    def _module(self, name):
        """{name: node} of the definitions in one text."""
        if name not in self._parsed:
            text = self.texts.get(name)
            filename = f"{self.file}:{name.replace('.', '/')}.py"
            nodes = {} if text is None else {node.name: node for node in parsed(text, filename).body
                                             if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            self._parsed[name] = nodes, filename, text
        return self._parsed[name]

    def names(self, module):
        """The names that one text defines."""
        return list(self._module(module)[0])

    def declares(self, name):
        """Whether a class of the program declares an attribute of this name."""
        return any(name in found[0].types for module in self.texts for each in self.names(module)
                   if isinstance((found := self.definition(f"{module}.{each}"))[0], Kind))

    def definition(self, qualified):
        """A Kind or FunctionDef, its file's name and text; None where there is none."""
        module, _, name = qualified.rpartition(".")
        nodes, filename, text = self._module(module)
        node = nodes.get(name)
        if node is None:
            return None
        if isinstance(node, ast.ClassDef) and qualified not in self.kinds:
            self.kinds[qualified] = Kind(qualified, node, filename, text)
        return self.kinds.get(qualified, node), filename, text

    def find(self, qualified):
        """The function or class of a qualified name."""
        if qualified not in self._made:
            found = self.definition(qualified)
            if found is None:
                raise NotScript(f"jit: {self.file} has no {shown(qualified)}")
            thing, filename, _ = found
            if isinstance(thing, Kind):
                self._class(thing)
            else:
                self._function(qualified, thing, filename)
        return self._made[qualified]

    def _function(self, qualified, node, filename):
        self._made[qualified] = None  # it may call itself
        at_once, others = taken(self, node).at_once()
        executed(self, filename, [function_def(self, filename, node, name=qualified, takes=at_once)])
        made = self.scope[qualified]
        made.__name__ = made.__qualname__ = node.name
        made.__module__ = qualified.rpartition(".")[0]
        self._made[qualified] = opened(made, others)

    def _class(self, kind):
        name, module = kind.node.name, kind.qualified.rpartition(".")[0]
        if kind.base == "Enum":
            made = enum.Enum(name, kind.members, module=module)
        elif kind.base == "NamedTuple":
            made = collections.namedtuple(name, list(kind.types), defaults=list(kind.constants.values()) or None)
            made._open_names = frozenset(kind.types)
        else:
            base = RecursiveScriptModule if kind.base == "Module" else _BASES.get(kind.qualified, ScriptObject)
            made = type(name, (base,), {**kind.constants, "__module__": module, "_open_names": kind.open_names,
                                        "_kind": kind, "_program": self})
        self._made[kind.qualified] = self.scope[kind.qualified] = made
        if kind.methods and kind.base not in ("Enum", "NamedTuple") and "Interface" not in kind.base:
            self._methods(kind, made)

    def _methods(self, kind, made):
        names = {name: f"{kind.qualified}.{name}" for name in kind.methods}
        takes = {name: taken(self, node, True).at_once() for name, node in kind.methods.items()
                 if kind.base == "Module"}
        alike = {full: self.scope[full] for full in names.values() if full in self.scope}  # hooks are functions, too
        executed(self, kind.filename, [function_def(self, kind.filename, node, kind, names[name],
                                                           takes=takes[name][0] if name in takes else {})
                                       for name, node in kind.methods.items()])
        for name, full in names.items():
            function = self.scope.pop(full)
            function.__name__, function.__qualname__ = name, f"{kind.node.name}.{name}"
            if name == "__init__" or name not in vars(_BASES.get(kind.qualified, ScriptObject)):
                setattr(made, name, opened(function, takes[name][1], True) if name in takes else function)
        self.scope.update(alike)
        for name in kind.methods:
            found = PROPERTY.match(name)
            if found is not None and issubclass(made, ScriptObject):  # for Python: the program calls the methods
                both = [getattr(made, f"__{found[1]}_{part}", None) for part in ("getter", "setter")]
                setattr(made, found[1], property(*both))

    def source(self, qualified):
        """The text of a function."""
        node, _, text = self.definition(qualified)
        return _segment(text, node)

    def as_module(self, qualified):
        """A module whose forward is a function: files hold modules."""
        node = ast.parse(self.source(qualified)).body[0]
        module = qualified.rpartition(".")[0]
        arguments = ast.unparse(node.args)
        receiver = f"self: {module}.PlaceholderModule"
        body = "\n".join(f"    {line}" for line in ast.unparse(ast.Module(node.body, [])).splitlines())
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        text = (f"class PlaceholderModule(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
                f"  def forward({receiver}{', ' * bool(arguments)}{arguments}){returns}:\n{body}\n")
        made = Program({**self.texts, module: text + self.texts[module]}, self.constants, self.file, self.octal)
        return made.find(f"{module}.PlaceholderModule")._of({"training": True})

    def module(self, module, classes, base=RecursiveScriptModule, made=None, names=None):
        """The module of the program that holds what `module` holds; `names`: {class of one's own: qualified name}."""
        made = {} if made is None else made
        if id(module) not in made:
            state = {"training": module.training, **module._parameters, **module._buffers,
                     **{name: self.held(getattr(module, name), names or {}) for name in classes.attributes(module)}}
            for name, child in module._modules.items():
                if child is not None:
                    state[name] = self.module(child, classes, made=made, names=names)
            kind = self.find(classes.of(module))
            kind = kind if base is RecursiveScriptModule else type(kind.__name__, (kind, base), {})
            made[id(module)] = kind._of(state) if base is RecursiveScriptModule else showing(kind._of(state))
        return made[id(module)]

    def held(self, value, names):
        """A value as the program has it: with objects of its own classes."""
        if isinstance(value, enum.Enum) and isinstance(value, (int, str)):
            return value.value  # which it is equal to
        if isinstance(value, (list, dict)):
            items = {k: self.held(v, names) for k, v in value.items()} if isinstance(value, dict) else [
                self.held(item, names) for item in value]
            both = [x.values() if isinstance(x, dict) else x for x in (items, value)]
            changed = any(a is not b for a, b in zip(*both, strict=True))
            return items if changed else value  # which the program shares
        qualified = names.get(type(value))
        if isinstance(value, tuple):
            items = [self.held(item, names) for item in value]
            return tuple(items) if qualified is None else self.find(qualified)(*items)
        if qualified is None:
            return value
        found = self.find(qualified)
        if isinstance(value, enum.Enum):
            return found[value.name]
        made = object.__new__(found)
        vars(made).update((name, self.held(getattr(value, name), names)) for name in found._kind.types)
        return made

    # ---- what functions ask for --------------------------------------------------------------------------------------

    def path(self, names):
        """An expression for a definition, or for a member of an enumeration."""
        for cut in (len(names), len(names) - 1):
            qualified = ".".join(names[:cut])
            if self.definition(qualified) is not None:
                self.find(qualified)
                made = ast.Name(qualified, ast.Load())
                for name in names[cut:]:
                    if name not in self.kinds[qualified].members:
                        return None
                    made = ast.Attribute(made, name, ast.Load())
                return made
        return None

    def maker(self, names):
        """An expression for the function that makes an empty object of a class."""
        found = self.find(".".join(names))
        if not issubclass(found, ScriptObject):
            raise NotScript(f"jit: {'.'.join(names)} has no __new__")
        label = f"new {'.'.join(names)}"
        self.scope[label] = lambda: object.__new__(found)
        return ast.Name(label, ast.Load())

    def global_name(self, name):
        """The scope's name of a definition beside the functions, for texts written by hand; None for no such thing."""
        if self.definition(f"__torch__.{name}") is None:
            return None
        self.find(f"__torch__.{name}")
        return f"__torch__.{name}"

    def operator(self, name, keywords=None):
        """The function behind `torch.name`, called with arguments of these names."""
        return self.operators.get(name) or operator(name, keywords)

    def kind_of(self, annotation):
        """The Kind of a module's class that a type names; None for other types."""
        names = dotted(annotation) if annotation is not None else None
        found = self.definition(".".join(names)) if names and names[0] == "__torch__" else None
        return found[0] if found is not None and isinstance(found[0], Kind) and found[0].base == "Module" else None

    def constant(self, name):
        """CONSTANTS.c0 and so on."""
        if not (name.startswith("c") and name[1:].isdecimal() and int(name[1:]) < len(self.constants)):
            raise NotScript(f"jit: {self.file} has no constant {shown(name)}")
        return self.constants[int(name[1:])]

    def type(self, node):
        """The type that an expression names."""
        names = dotted(node)
        if names is not None:
            if names[-1] in _TYPES and names[0] in (names[-1], "torch"):
                return _TYPES[names[-1]]
            return self.find(".".join(names))
        if isinstance(node, ast.Constant) and node.value is None:
            return type(None)
        if isinstance(node, ast.Tuple):
            return tuple(map(self.type, node.elts))
        if isinstance(node, ast.Subscript):
            head = dotted(node.value)[-1]
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = tuple(map(self.type, parts))
            if head == "Optional":
                return parts[0] | None
            if head == "Union":
                return functools.reduce(operator_of.or_, parts)
            if head == "Future":  # what it will give is not known before
                return flambeau.jit.Future
            if head in _GENERIC:
                return _GENERIC[head][parts]
        raise NotScript(f"jit: {ast.unparse(node)} is no type of TorchScript")

    @staticmethod
    def isinstance(value, kind):
        """As `jit.isinstance`."""
        return flambeau.jit.isinstance(value, kind)


class CompilationUnit:
    r"""Functions from TorchScript's text, as attributes.

    >>> import flambeau
    >>> unit = flambeau.jit.CompilationUnit("def twice(x: Tensor, times: int = 2):\n  return x * times")
    >>> unit.twice(flambeau.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, lang=None, _frames_up=0):
        self._text, self._program = "", None
        if lang:
            self.define(lang)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a text; rcb, PyTorch's way to look names up, is not available."""
        if rcb is not None:
            raise NotImplementedError("define: rcb is not available; the text may name operators and its own functions")
        program = Program({"__torch__": self._text + textwrap.dedent(lang) + "\n"})
        for name in program.names("__torch__"):
            program.find(f"__torch__.{name}")
        self._text, self._program = program.texts["__torch__"], program

    def __getattr__(self, name):
        if name.startswith("_") or self._program is None or name not in self._program.names("__torch__"):
            raise AttributeError(f"the CompilationUnit defines no {name}")
        qualified = f"__torch__.{name}"
        return ScriptFunction(self._program.find(qualified), self._program, qualified)
