"""jit.script: a function or module as a program that is written from its source."""

import contextlib
import inspect

from .._places import is_ours
from ..nn import Module
from ._classes import Classes, Constants, home_of
from ._declared import hints_of, is_declared
from ._hooks import CALLED, called, listed
from ._layers import defines, forward_of
from ._merging import Merged, attributes_of, finished
from ._objects import Kinds
from ._program import PROPERTY, Program
from ._source import Source
from ._types import NotScriptable, type_of, type_text
from ._writing import quoted


class Script:
    """The texts of one program, while they are written."""

    def __init__(self):
        self.functions = {}   # function -> qualified name
        self.unfinished = set()  # those that are being written
        self.kinds, self.merged = Kinds(self), Merged(self)
        self.texts = {}       # name of a module -> [text]
        self.constants = Constants()
        self.methods = {}     # id of a module -> {name: text}
        self.modules = []     # those modules: their ids must stay theirs
        self.hooks = {}       # (id of a module, name) -> its hook
        self.looked_at = set()  # functions in which mistakes were looked for

    def program(self, name="<script>"):
        """The Program of what is written."""
        texts = {home: "".join(parts) for home, parts in self.texts.items()}
        return Program(texts, self.constants.values, name)

    def function(self, function, kinds=()):
        """The qualified name of a function of the program; `kinds` are the types of its first call's constants."""
        function = inspect.unwrap(function)
        if getattr(function, "_jit_unused", False) and function not in self.functions:
            qualified = self.functions[function] = self.unused(home_of(function), function.__name__)
            text = _raising(self, function, qualified.rpartition(".")[2])
            self.texts.setdefault(home_of(function), []).append(text)
        if function not in self.functions:
            home = home_of(function)
            qualified = self.functions[function] = self.unused(home, function.__name__)
            with self._writing(function):
                text = Source(self, function, kinds=kinds).text(qualified.rpartition(".")[2])
            self.texts.setdefault(home, []).append(text)
        if function in self.unfinished:
            raise NotScriptable(f"jit.script: {function.__name__} calls itself, which a program cannot; write a loop")
        return self.functions[function]

    @contextlib.contextmanager
    def _writing(self, function):
        """Inside, a function is not finished; it has no name where it cannot be."""
        self.unfinished.add(function)
        try:
            yield
        except NotScriptable:
            del self.functions[function]
            raise
        finally:
            self.unfinished.discard(function)

    def unused(self, home, name):
        """A qualified name that neither a function nor a class has."""
        taken = {*self.functions.values(), *self.kinds.names.values()}
        while f"{home}.{name}" in taken:
            name += "_"
        return f"{home}.{name}"

    def method(self, module, name, kinds=()):
        """Writes a method of a module, once; `kinds` are the types of its first call's constants."""
        found = self.methods.setdefault(id(module), {})
        if name not in found and not finished(module):
            self.modules.append(module)
            found[name] = None  # until it is written
            try:
                found[name] = self._method(module, name, kinds)
            except NotScriptable:
                del found[name]
                raise
        if name in found and found[name] is None:
            raise NotScriptable(f"jit.script: {type(module).__name__}.{name} calls itself, which a program cannot; "
                                "write a loop")

    def text(self, module):
        """The methods of a module."""
        return "".join(self.methods.get(id(module), {}).values())

    def merged_name(self, module):
        """The name of a finished module's class, which becomes a part of the program; None of others."""
        return self.merged.names(module._program)[module._kind.qualified] if finished(module) else None

    def listed(self, module):
        """The lines that list the hooks of a module, where they are methods of the program."""
        return listed(module) if CALLED in self.methods.get(id(module), {}) else []

    def called(self, module):
        """The method that a call of a module is, whose `forward` is written."""
        return called(self, module)

    def _method(self, module, name, kinds):
        part = PROPERTY.match(name)
        if part is not None:
            held = inspect.getattr_static(type(module), part[1])
            return Source(self, held.fget if name.endswith("_getter") else held.fset, module, kinds).text(name)
        function = inspect.unwrap(getattr(type(module), name))
        if getattr(function, "_jit_unused", False):
            return _raising(self, function, name, module)
        owner = defines(type(module), name)
        if name == "forward" and is_ours(owner.__module__):
            found = forward_of(self, module, owner)
            if found is not None:
                return found
        return Source(self, function, module, kinds).text(name)


def _raising(script, function, name, module=None):
    """The text of a function that is left out: it has the arguments and the result, and raises."""
    source = Source(script, function, module)
    result = source.result if "return" in source.hints else "Tensor"
    text = quoted(f"{name} is left out of scripts (jit.ignore, jit.unused)")
    head = source.head(name).partition(" -> ")[0].rstrip(":")
    value = "None" if result == "NoneType" else f"uninitialized({result})"
    return f"{head} -> {result}:\n  ops.prim.RaiseException({text}, \"builtins.RuntimeError\")\n  return {value}\n"


# ---- what script returns ---------------------------------------------------------------------------------------------

def attributes_in(module, kinds):
    """{name: type} of the plain values that a module holds; objects are those of classes that its methods name."""
    if finished(module):
        return attributes_of(module)
    hints, found = hints_of(module), {}
    for name, value in vars(module).items():
        if not is_declared(module, name):
            continue
        try:
            kind = type_text(hints[name], kinds.name) if name in hints else type_of(value, kinds.names.get)
        except (NotScriptable, NameError, AttributeError, SyntaxError):
            kind = type_of(value, kinds.names.get)
        if kind is not None:
            found[name] = kind
    return found


def _forward(module):
    """["forward"], or nothing of a module that only holds others."""
    return ["forward"] if type(module).forward is not Module.forward else []


def scripted_module(module):
    """The module as one whose class and methods are a program: a RecursiveScriptModule."""
    script = Script()
    exported = [name for name in dir(type(module)) if getattr(getattr(type(module), name), "_jit_export", False)]
    for name in (*_forward(module), *exported):
        script.method(module, name)
    if _forward(module):
        script.called(module)
    for child in module.modules():
        if id(child) not in script.methods:  # nobody calls it but who takes it out of the program
            with contextlib.suppress(NotScriptable):
                for name in _forward(child):
                    script.method(child, name)
                    script.called(child)
    classes = Classes(script.text, lambda m: attributes_in(m, script.kinds), script.texts,
                      script.merged_name, script.listed)
    classes.of(module)
    return script.program().module(module, classes, names=script.kinds.names)


def scripted_function(function):
    """(Program, qualified name) of a function."""
    script = Script()
    qualified = script.function(function)
    return script.program(), qualified
