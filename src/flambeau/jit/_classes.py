"""The classes of modules in a program, which hold its tensors, and the names of what is in it."""

import inspect
import keyword
import textwrap

from .._places import is_ours


class Constants:
    """The tensors of a program that belong to no module: CONSTANTS.c0 and so on."""

    def __init__(self):
        self.values, self._found = [], {}

    def of(self, value):
        """The expression of one."""
        if id(value) not in self._found:
            self._found[id(value)] = len(self.values)
            self.values.append(value)
        return f"CONSTANTS.c{self._found[id(value)]}"


def is_property(kind, name, part="getter"):
    """Whether a class of modules has a property of its own that programs may call: get ("getter") or set."""
    held = inspect.getattr_static(kind, name, None)
    if not isinstance(held, property) or name in getattr(kind, "__jit_unused_properties__", ()):
        return False
    function = held.fget if part == "getter" else held.fset
    return function is not None and not is_ours(function.__module__) and not getattr(held.fget, "_jit_unused", False)


def attribute_path(path, root="self"):
    """`self.a.b` for "a.b"; parts that are no names by getattr."""
    text = root
    for part in path.split("."):
        text = f"{text}.{part}" if is_name(part) else f'getattr({text}, "{part}")'
    return text


class Classes:
    """The texts of the classes that modules have in a program: one for all that hold and do the same.

    methods     module -> the text of its methods, in which SELF stands for the class
    attributes  module -> {name: type} of what it has besides tensors and modules
    texts       {name of a module: [text]}, which is added to
    known       module -> the qualified name of a class that is written already, or None
    hooks       module -> the lines that list its hooks
    """

    def __init__(self, methods, attributes=lambda module: {}, texts=None, known=lambda module: None,
                 hooks=lambda module: []):
        self.methods, self.attributes, self.texts = methods, attributes, {} if texts is None else texts
        self.known, self.hooks = known, hooks
        self._known = {}   # (class, text) -> qualified name
        self._of = {}      # id of a module -> qualified name
        self._numbers = 0

    def of(self, module):
        """The qualified name of a module's class."""
        if id(module) not in self._of:
            self._of[id(module)] = self.known(module) or self._named(module)
        return self._of[id(module)]

    def _named(self, module):
        kind = getattr(type(module), "_scripted_class", type(module))
        name = kind.__name__ if kind.__name__.isidentifier() else "Module"
        home = home_of(kind)
        text = "\n".join([f"class {name}(Module):", *(f"  {line}" for line in self._declarations(module))]) + "\n"
        text += textwrap.indent(self.methods(module), "  ")
        key = home, name, text
        if key in self._known:
            return self._known[key]
        while f"{home}.{name}" in self._known.values():
            home = f"{home.partition('.___torch_mangle_')[0]}.___torch_mangle_{self._numbers}"
            self._numbers += 1
        qualified = self._known[key] = f"{home}.{name}"
        self.texts.setdefault(home, []).append(text.replace(": SELF", f": {qualified}"))
        return qualified

    def _declarations(self, module):
        parameters = [f'"{name}", ' for name in module._parameters]
        buffers = [f'"{name}", ' for name in module._buffers]
        lines = [f"__parameters__ = [{''.join(parameters)}]", f"__buffers__ = [{''.join(buffers)}]",
                 *self.hooks(module)]
        for table in (module._parameters, module._buffers):
            lines += [declared_as(name, "Tensor" if value is not None else "Optional[Tensor]")
                      for name, value in table.items()]
        lines.append("training : bool")
        lines += [declared_as(name, kind) for name, kind in self.attributes(module).items()]
        return lines + [declared_as(name, self.of(child)) for name, child in module._modules.items()
                        if child is not None]


def home_of(thing):
    """The name of the text that a class or function stands in; ours as PyTorch's."""
    if thing.__module__ in (None, "__main__", "builtins"):
        return "__torch__"
    parts = ["torch" if part == "flambeau" else part for part in thing.__module__.split(".")]
    return ".".join(["__torch__", *(part if is_name(part) else f"_{part}" for part in parts)])


def declared_as(name, kind):
    return f"{name} : {kind}" if is_name(name) else f'__annotations__["{name}"] = {kind}'


def is_name(text):
    return text.isidentifier() and not keyword.iskeyword(text)
